"""The pages that are generated from the code, or list what is in it, are what the code has."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from code_blocks import DOCS

import hermes_lab
from hermes_lab.runners import command_page
from hermes_lab.runners.cli import app

COMMANDS = (DOCS / "commands.md").read_text()
PYTHON = (DOCS / "python.md").read_text()


def commands(path: tuple[str, ...], command: Any) -> Iterator[tuple[str, Any]]:
    for name, inner in getattr(command, "commands", {}).items():
        if not inner.hidden:
            yield " ".join((*path, name)), inner
            yield from commands((*path, name), inner)


def section(name: str) -> str:
    """The part of the page about one command."""
    found = re.search(rf"^#+ `hermes-lab {name}`\n(.*?)(?=^#|\Z)", COMMANDS, re.DOTALL | re.MULTILINE)
    assert found, name
    return found[1]


def test_the_commands_are_those_of_the_code() -> None:
    assert command_page.page() == COMMANDS, "run: python -m hermes_lab.runners.command_page docs/commands.md"


@pytest.mark.parametrize(
    ("name", "command"), [pytest.param(*each, id=each[0]) for each in commands((), typer.main.get_command(app))]
)
def test_every_command_has_its_options_and_arguments(name: str, command: Any) -> None:
    text = section(name)
    rows = re.findall(r"^\| (`[^|]+`) \|", text, re.MULTILINE)
    shown = [part.strip("` ") for row in rows for part in row.split(",")]
    parameters = [] if hasattr(command, "commands") else command.params
    known = [
        flag if flag.startswith("-") else parameter.name.upper()
        for parameter in parameters
        for flag in (*parameter.opts, *parameter.secondary_opts)
        if not getattr(parameter, "hidden", False) and parameter.name != "help"
    ]
    assert shown == known


def test_help_lists_every_command_with_one_short_sentence() -> None:
    every = dict(commands((), typer.main.get_command(app)))
    assert {name: command.short_help for name, command in every.items() if not 10 < len(command.short_help) <= 80} == {}
    assert all(command.rich_help_panel for name, command in every.items() if " " not in name)
    assert every["show"].short_help == "List a run's episodes, or print one in full."
    assert every["cron"].short_help == "Scheduled jobs: prompts and commands that run at set times."


def test_no_removed_command_is_left() -> None:
    known = {name for name, _ in commands((), typer.main.get_command(app))}
    assert set(re.findall(r"^#+ `hermes-lab (.+)`$", COMMANDS, re.MULTILINE)) == known


def test_every_public_name_of_the_library_is_on_its_page() -> None:
    shown = re.findall(r"^::: hermes_lab\.(\w+)", PYTHON, re.MULTILINE)
    assert len(shown) == len(set(shown))
    assert set(shown) == set(hermes_lab.__all__) - {"__version__"}
