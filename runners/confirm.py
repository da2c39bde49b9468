"""Asks before something is lost."""

import sys

import typer

from hermes_lab.errors import ConfigError


def confirmed(what: str) -> bool:
    """Asks at a terminal whether to do `what`. Raises `ConfigError` without a terminal."""
    if not sys.stdin.isatty():
        raise ConfigError(f"{what}: there is no terminal to ask at; --yes does it without asking")
    return typer.confirm(f"{what}?", err=True)
