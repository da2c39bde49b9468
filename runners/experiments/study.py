"""A study: the same experiment on several suites, each with several agents, as one file says it."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from pydantic import Field, field_validator, model_validator

from hermes_lab.config.paths import OutputPath, Source
from hermes_lab.config.schema import Section
from hermes_lab.config.sources import load_section
from hermes_lab.errors import ConfigError

MODEL_URL, MODEL_NAME = "HERMES_LAB_MODEL_URL", "HERMES_LAB_MODEL_NAME"
"""The environment's variables that put any OpenAI-compatible endpoint in the place of a study's variants."""


class StudyConfig(Section):
    """The file of `hermes-lab study`. Sources are YAML files and `key=value` overrides, as of `experiment -c`."""

    out: OutputPath
    """The folder of all runs."""
    shared: tuple[Source, ...] = ()
    """Sources of every run."""
    parts: dict[str, tuple[Source, ...]]
    """What is worked on, such as a family of tasks: a name, and its sources. Each part has a report of its own."""
    variants: dict[str, tuple[Source, ...]]
    """Who works on it, such as weights: a name, and its sources."""
    compare: tuple[str, str] | None = None
    """Two variants, `[before, after]`, that are compared in each part."""
    groups: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Parts that are answered for together, too, each world of each part counting as one: a name, and the parts."""

    @field_validator("parts", "variants")
    @classmethod
    def _check_folder_names(cls, sources: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        if not sources:
            raise ValueError("give at least one")
        for name in sources:
            if not name or name != Path(name).name or name.startswith("."):
                raise ValueError(f"{name!r} is no name of a folder")
        return sources

    @model_validator(mode="after")
    def _check_names(self) -> "StudyConfig":
        for name in self.compare or ():
            if name not in self.variants:
                raise ValueError(f"compare: there is no variant {name!r}; there are: {', '.join(self.variants)}")
        for group, parts in self.groups.items():
            for part in parts:
                if part not in self.parts:
                    raise ValueError(f"groups.{group}: there is no part {part!r}; there are: {', '.join(self.parts)}")
        return self


class Run(NamedTuple):
    """One run of a study."""

    part: str
    variant: str
    folder: Path
    sources: list[str]


class Study(NamedTuple):
    """What a file asks for, with the environment's endpoint in it."""

    folder: Path
    runs: list[Run]
    compare: tuple[str, str] | None
    groups: dict[str, tuple[str, ...]]

    def parts(self) -> Iterator[tuple[str, list[Run]]]:
        """The runs of each part, in the order of the variants."""
        for part in dict.fromkeys(run.part for run in self.runs):
            yield part, [run for run in self.runs if run.part == part]

    def of(self, group: str) -> dict[str, list[tuple[str, Path]]]:
        """The parts of a group with their run, by variant."""
        found: dict[str, list[tuple[str, Path]]] = {}
        for run in self.runs:
            if run.part in self.groups[group]:
                found.setdefault(run.variant, []).append((run.part, run.folder))
        return found


def read_study(file: Path, overrides: list[str], environment: Mapping[str, str] = os.environ) -> Study:
    """Reads the file; `overrides` are of the file's own fields, or of every run where they are not.

    Where the environment names an endpoint, that is the only variant, in a folder of its own: adapters are no part of
    somebody else's model. Raises `ConfigError` with the file and line of a mistake.
    """
    # A file may be called `out.yaml`: only what has a value is an override.
    own = [source for source in overrides if "=" in source and re.split(r"[.=]", source)[0] in StudyConfig.model_fields]
    config = load_section(StudyConfig, [str(file), *own])
    of_every = [source for source in overrides if source not in own]
    folder, variants, compare = Path(config.out), config.variants, config.compare
    endpoint: tuple[str, ...] = ()
    url, name = environment.get(MODEL_URL, ""), environment.get(MODEL_NAME, "")
    if bool(url) != bool(name):
        missing = MODEL_NAME if url else MODEL_URL
        raise ConfigError(f"{missing} is not set; an endpoint is named by {MODEL_URL} and {MODEL_NAME}")
    if url:
        plain = name.replace("/", "-")
        folder = folder.with_name(f"{folder.name}-{plain}")
        served = ("model.provider=openai", f"model.base_url={url}", f"model.name={name}")
        endpoint = (*served, "model.adapter=", "model.merge=false")
        variants, compare = {plain: ()}, None
    runs = [
        Run(part, variant, folder / part / variant, [*config.shared, *sources, *more, *of_every, *endpoint])
        for part, sources in config.parts.items()
        for variant, more in variants.items()
    ]
    return Study(folder, runs, compare, config.groups)
