"""Options that several commands share, and how output is shown."""

from pathlib import Path
from typing import Annotated

import typer

Config = Annotated[
    list[str] | None,
    typer.Option("--config", "-c", help="A YAML file, or `key=value`; merged left to right.", show_default=False),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print results only.")]
Run = Annotated[Path, typer.Argument(help="A run folder.", show_default=False)]


def say(message: str) -> None:
    """A line about what is going on; results go to stdout, this to stderr."""
    typer.echo(message, err=True)


def say_nothing(message: str) -> None:
    """The `say` of `--quiet`."""
    del message
