"""Options and helpers shared by the `tasks` commands."""

from pathlib import Path
from typing import Annotated

import typer

from hermes_lab.config.schema import RunConfig
from hermes_lab.config.sources import load_config
from hermes_lab.errors import ConfigError
from hermes_lab.protocols import Suite
from hermes_lab.tasks import list_suites, load_suite


def names(incomplete: str) -> list[str]:
    """Shell completion of a suite's name."""
    return [name for name in list_suites() if name.startswith(incomplete)]


Name = Annotated[
    str,
    typer.Argument(
        help="A suite's name, module:Class of your own, a JSONL file, or a folder of Harbor tasks.",
        show_default=False,
        autocompletion=names,
    ),
]
Split = Annotated[str, typer.Option(help="The split of the suite.")]
Seed = Annotated[int, typer.Option(help="Seed for the tasks.")]
World = Annotated[int, typer.Option(help="Seed for the hidden rules.", min=0)]
AnyWorld = Annotated[
    int | None, typer.Option(help="Seed for the hidden rules.", min=0, show_default="many, one task each")
]


def field_of(name: str) -> str:
    """The field that takes what a person calls a suite: `suite.path` for a JSONL file or a folder of Harbor tasks, else
    `suite.name`."""
    is_path = name.endswith(".jsonl") or "/" in name or (name not in list_suites() and Path(name).exists())
    return "path" if is_path else "name"


def config_of(name: str, sources: list[str] | None) -> RunConfig:
    """The configuration for the suite `name`, which may be `module:Class`, a JSONL file or a folder of Harbor tasks."""
    config = load_config(sources or [])
    if config.suite.name or config.suite.path:
        raise ConfigError("suite: given as the argument, so leave suite.name and suite.path out of --config")
    return config.model_copy(update={"suite": config.suite.model_copy(update={field_of(name): name})})


def suite_of(config: RunConfig) -> Suite:
    """The suite of a configuration."""
    return load_suite(config.suite, config.sandbox)


def split_of(suite: Suite, split: str) -> str:
    """The split to use; the default also selects the only split of a suite. Raises `ConfigError` for an unknown one."""
    if split in suite.splits:
        return split
    if len(suite.splits) == 1 and split == "train":
        return suite.splits[0]
    raise ConfigError(f"--split: {suite.name} has no split {split!r}; choose from {', '.join(suite.splits)}")
