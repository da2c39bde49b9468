"""Options that several commands share, and how output is shown."""

from pathlib import Path
from typing import Annotated, Any

import typer

Config = Annotated[
    list[str] | None,
    typer.Option("--config", "-c", help="A YAML file, or `key=value`; merged left to right.", show_default=False),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print results only.")]
Run = Annotated[Path, typer.Argument(help="A run folder.", show_default=False)]

Out = Annotated[Path | None, typer.Option("--out", "-o", help="The run folder.", show_default=False)]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the run in --out: do what it still owes.")]


def say(message: str) -> None:
    """A line about what is going on; results go to stdout, this to stderr."""
    typer.echo(message, err=True)


def warn(warning: str) -> None:
    """Says a warning, where there is one."""
    if warning:
        say(warning)


def say_nothing(message: str) -> None:
    """The `say` of `--quiet`."""
    del message


def print_json(content: Any) -> None:
    """One JSON object on stdout."""
    import msgspec

    typer.echo(msgspec.json.encode(content).decode())
