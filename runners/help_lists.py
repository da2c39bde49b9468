"""How `--help` lists commands: in panels, with one sentence each. The whole help is that of the command itself."""

from typing import Protocol

import typer


class Registers(Protocol):
    """A module of commands."""

    def register(self, app: typer.Typer) -> None:
        """Adds a command, or a group of commands."""


def add_panel(app: typer.Typer, title: str, modules: tuple[Registers, ...]) -> None:
    """Adds the commands of `modules`, which `--help` lists under `title`."""
    for module in modules:
        part = typer.Typer()
        module.register(part)
        for command in part.registered_commands:
            command.rich_help_panel = title
        for group in part.registered_groups:
            group.rich_help_panel = title
        app.registered_commands += part.registered_commands
        app.registered_groups += part.registered_groups


def shorten(app: typer.Typer) -> None:
    """Lists every command and group of `app` with the first sentence of its help."""
    for command in app.registered_commands:
        command.short_help = first_sentence(command.help or "")
    for group in app.registered_groups:
        inner = group.typer_instance
        assert inner is not None
        group.short_help = first_sentence(inner.info.help or "")
        shorten(inner)


def first_sentence(text: str) -> str:
    """The first sentence of a help text, with its full stop."""
    return f"{text.partition(chr(10) * 2)[0].partition('. ')[0].rstrip('.')}."
