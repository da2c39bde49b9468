"""The commands of `hermes-lab`. Each is imported when it is needed: all of them together take a second.

`--help` lists them in panels, with one sentence each. The whole help is that of the command itself.
"""

from collections import UserDict
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

_PANELS = {
    "Run": ("run", "experiment", "study", "replay", "rescore"),
    "Analyse": ("show", "summary", "fit", "compare", "audit", "power", "report", "view", "export"),
    "Train": ("serve", "env", "train", "adapters"),
    "Chat": ("chat", "gateway", "sessions", "cron"),
    "Set up": ("update", "doctor", "config"),
    "Tasks, tools and skills": ("tasks", "skills", "tools", "mcp", "agents"),
}
_MODULES = {"tasks": "suites", "env": "environments"}
"""Below `commands`, where a module is not named like its command."""


class CommandList(TyperGroup):
    """The group of all commands."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _Commands()


class _Commands(UserDict[str, Any]):
    """Commands by name. None: not imported yet."""

    def __init__(self) -> None:
        self._panels = {name: panel for panel, names in _PANELS.items() for name in names}
        super().__init__(dict.fromkeys(self._panels))

    def __getitem__(self, name: str) -> Any:
        if self.data[name] is None:
            self.data[name] = _command(name, self._panels[name])
        return self.data[name]


def _command(name: str, panel: str) -> Any:
    """The command or group of that name, listed in that panel."""
    part = typer.Typer()
    import_module(f"hermes_lab.runners.commands.{_MODULES.get(name, name)}").register(part)
    _shorten(part)
    command = typer.main.get_group(part).commands[name]
    command.rich_help_panel = panel  # type: ignore[attr-defined]
    return command


def _shorten(app: typer.Typer) -> None:
    """Lists every command and group of `app` with the first sentence of its help."""
    for command in app.registered_commands:
        command.short_help = _first_sentence(command.help or "")
    for group in app.registered_groups:
        inner = group.typer_instance
        assert inner is not None
        group.short_help = _first_sentence(inner.info.help or "")
        _shorten(inner)


def _first_sentence(text: str) -> str:
    """The first sentence of a help text, with its full stop."""
    return f"{text.partition(chr(10) * 2)[0].partition('. ')[0].rstrip('.')}."
