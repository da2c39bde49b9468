"""What `--help` says: nothing of a help text, an example or a default is lost on its way to the terminal."""

import re
from collections.abc import Iterator

import pytest
import typer
from typer.testing import CliRunner

from hermes_lab.runners.cli import app


def commands() -> Iterator[tuple[tuple[str, ...], typer.core.TyperCommand]]:
    def walk(path: tuple[str, ...], command: object) -> Iterator[tuple[tuple[str, ...], object]]:
        yield path, command
        for name, inner in getattr(command, "commands", {}).items():
            yield from walk((*path, name), inner)

    yield from walk((), typer.main.get_command(app))  # type: ignore[misc]


COMMANDS = {" ".join(path): (path, command) for path, command in commands()}


def shown(path: tuple[str, ...]) -> str:
    result = CliRunner().invoke(app, [*path, "--help"], env={"COLUMNS": "1000", "TERM": "dumb"})
    assert result.exit_code == 0
    return " ".join(re.sub(r"[│╭╮╰╯─]", " ", result.stdout).split())


def plain(text: str) -> str:
    """As it is meant to be read: `\\[` keeps Rich from taking `[word]` for a style."""
    return " ".join(text.replace("\\[", "[").split())


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_every_text_and_every_default(name: str) -> None:
    path, command = COMMANDS[name]
    text = shown(path)
    for paragraph in (command.help or "").split("\n\n"):
        assert plain(paragraph) in text
    for parameter in command.params:
        if getattr(parameter, "hidden", False):
            continue
        assert plain(getattr(parameter, "help", None) or "") in text
        default, told = parameter.default, getattr(parameter, "show_default", False)
        if isinstance(told, str):
            assert f"[default: ({plain(told)})]" in text
        elif told and not isinstance(default, bool) and default not in (None, "", ()):
            assert f"[default: {getattr(default, 'value', default)}]" in text


def test_a_group_has_an_example_for_each_of_its_configuration_commands() -> None:
    for name in ("show", "docs", "check"):
        assert f"hermes-lab config {name}" in plain(COMMANDS[f"config {name}"][1].help or "")


def test_a_style_in_a_help_text_would_be_noticed() -> None:
    """The test above fails for a text whose brackets are not escaped."""
    lost = typer.Typer()
    lost.command(help="Give data=[runs/loop].")(lambda: None)
    assert "[runs/loop]" not in CliRunner().invoke(lost, ["--help"]).stdout
