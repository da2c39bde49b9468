"""Studies: the same experiment on several suites with several agents, defined in one file."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from pydantic import Field, field_validator, model_validator

from hermes_lab.config.paths import OutputPath, Source
from hermes_lab.config.section import Section
from hermes_lab.config.sources import load_section
from hermes_lab.errors import ConfigError

MODEL_URL, MODEL_NAME = "HERMES_LAB_MODEL_URL", "HERMES_LAB_MODEL_NAME"
"""Environment variables that replace a study's variants by an OpenAI-compatible endpoint."""


class StudyConfig(Section):
    """The file of `hermes-lab study`. Sources are YAML files and `key=value` overrides, as for `experiment -c`."""

    out: OutputPath
    """The folder of all runs."""
    shared: tuple[Source, ...] = ()
    """Sources of every run."""
    parts: dict[str, tuple[Source, ...]]
    """What varies between reports, such as the suite: names and their sources. Each part has its own report."""
    variants: dict[str, tuple[Source, ...]]
    """What varies within a report, such as the weights: names and their sources."""
    only: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Variants that run some parts only: names and their parts."""
    compare: tuple[str, str] | None = None
    """Two variants, `[before, after]`, to compare in each part."""
    groups: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Parts to also analyse together: names and their parts. Each world of each part counts as one unit."""
    trainings: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Variants by adapters that were trained from one lock with other seeds: names and their variants. In each group
    their effect is also given over all of them, with what varies between trainings in its interval."""

    @field_validator("parts", "variants")
    @classmethod
    def _check_folder_names(cls, sources: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        if not sources:
            raise ValueError("give at least one")
        for name in sources:
            if not name or name != Path(name).name or name.startswith("."):
                raise ValueError(f"{name!r} is not a valid folder name")
        return sources

    @model_validator(mode="after")
    def _check_names(self) -> "StudyConfig":
        for name in self.compare or ():
            if name not in self.variants:
                raise ValueError(f"compare: no variant {name!r}; choose from {', '.join(self.variants)}")
        for name in self.only:
            if name not in self.variants:
                raise ValueError(f"only: no variant {name!r}; choose from {', '.join(self.variants)}")
            if not self.only[name]:
                raise ValueError(f"only.{name}: give at least one part, or remove the variant")
        for field, named in (("groups", self.groups), ("only", self.only)):
            for name, parts in named.items():
                for part in parts:
                    if part not in self.parts:
                        raise ValueError(f"{field}.{name}: no part {part!r}; choose from {', '.join(self.parts)}")
        for training, variants in self.trainings.items():
            for name in variants:
                if name not in self.variants:
                    raise ValueError(
                        f"trainings.{training}: no variant {name!r}; choose from {', '.join(self.variants)}"
                    )
            if len(set(variants)) < 2:
                raise ValueError(f"trainings.{training}: give at least two different variants")
        return self


class Run(NamedTuple):
    """One run of a study."""

    part: str
    variant: str
    folder: Path
    sources: list[str]


class Study(NamedTuple):
    """The runs of a study, with the endpoint of the environment variables applied."""

    folder: Path
    runs: list[Run]
    compare: tuple[str, str] | None
    groups: dict[str, tuple[str, ...]]
    trainings: dict[str, tuple[str, ...]]

    def parts(self) -> Iterator[tuple[str, list[Run]]]:
        """The runs of each part, in the order of the variants."""
        for part in dict.fromkeys(run.part for run in self.runs):
            yield part, [run for run in self.runs if run.part == part]

    def of(self, group: str) -> dict[str, list[tuple[str, Path]]]:
        """The parts of a group and their run folders, by variant."""
        found: dict[str, list[tuple[str, Path]]] = {}
        for run in self.runs:
            if run.part in self.groups[group]:
                found.setdefault(run.variant, []).append((run.part, run.folder))
        return found


def read_study(file: Path, overrides: list[str], environment: Mapping[str, str] = os.environ) -> Study:
    """Reads a study file. `overrides` set fields of the study, or else of every run.

    If the environment names an endpoint, it is the only variant, in its own folder and without adapters, which only fit
    the model they were trained on. Raises `ConfigError` with the file and line of a mistake.
    """
    # A source without `=` is a file, even if its name starts with a field's, as in `out.yaml`.
    own = [source for source in overrides if "=" in source and re.split(r"[.=]", source)[0] in StudyConfig.model_fields]
    config = load_section(StudyConfig, [str(file), *own])
    of_every = [source for source in overrides if source not in own]
    folder, variants, only = Path(config.out), config.variants, config.only
    compare, trainings = config.compare, config.trainings
    endpoint: tuple[str, ...] = ()
    url, name = environment.get(MODEL_URL, ""), environment.get(MODEL_NAME, "")
    if bool(url) != bool(name):
        missing = MODEL_NAME if url else MODEL_URL
        raise ConfigError(f"{missing} is not set; set both {MODEL_URL} and {MODEL_NAME}")
    if url:
        plain = name.replace("/", "-")
        folder = folder.with_name(f"{folder.name}-{plain}")
        served = ("model.provider=openai", f"model.base_url={url}", f"model.name={name}")
        endpoint = (*served, "model.adapter=", "model.merge=false")
        variants, only, compare, trainings = {plain: ()}, {}, None, {}
    runs = [
        Run(part, variant, folder / part / variant, [*config.shared, *sources, *more, *of_every, *endpoint])
        for part, sources in config.parts.items()
        for variant, more in variants.items()
        if part in only.get(variant, config.parts)
    ]
    return Study(folder, runs, compare, config.groups, trainings)
