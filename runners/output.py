"""How a command prints: results to stdout, everything else to stderr."""

from typing import Any

import typer


def say(message: str) -> None:
    """Prints a line to stderr."""
    typer.echo(message, err=True)


def warn(warning: str) -> None:
    """Prints a warning to stderr, if there is one."""
    if warning:
        say(warning)


def say_nothing(message: str) -> None:
    """The `say` of `--quiet`."""
    del message


def print_json(content: Any) -> None:
    """Prints one JSON object to stdout."""
    import msgspec

    typer.echo(msgspec.json.encode(content).decode())
