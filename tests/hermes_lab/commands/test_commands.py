"""What a typed line means, and what the registry knows of its commands."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_lab.commands.registry import Registry, Typed, Unknown, all_commands, table

REGISTRY = Registry("terminal")
SKILLS = ("green-tea", "deep-research")
PAGE = Path(__file__).parents[3] / "docs" / "chat.md"


def test_every_command_is_there_under_one_name() -> None:
    names = [name for command in all_commands() for name in (command.name, *command.aliases)]
    assert len(names) == len(set(names))
    wanted = (
        "help new reset resume history undo retry title save compress usage context tools skills memory model status"
    )
    assert {*wanted.split(), "stop", "queue", "verbose", "quit"} <= set(names)


@pytest.mark.parametrize(
    ("line", "name", "arguments"),
    [
        ("/new", "new", ""),
        ("  /RESET  my talk ", "new", "my talk"),
        ("/compress 50000", "compress", "50000"),
        ("/exit", "quit", ""),
        ("/queue one\ntwo", "queue", "one\ntwo"),
    ],
)
def test_commands_are_found_by_name_and_alias(line: str, name: str, arguments: str) -> None:
    found = REGISTRY.read(line, SKILLS)
    assert isinstance(found, Typed)
    assert (found.command.name if found.command else "", found.text) == (name, arguments)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("hello /new", "hello /new"),
        ("//new is a command", "/new is a command"),
        ("/etc/hosts is broken", "/etc/hosts is broken"),
        ("/green-tea for two", "/green-tea for two"),
        ("/ alone", "/ alone"),
        ("/", "/"),
    ],
)
def test_everything_else_is_a_message(line: str, message: str) -> None:
    found = REGISTRY.read(line, SKILLS)
    assert isinstance(found, Typed)
    assert (found.command, found.text) == (None, message)


@pytest.mark.parametrize(
    ("line", "near"),
    [("/usag", "/usage"), ("/green-tee x", "/green-tea"), ("/deep_research", "/deep-research"), ("/xyzzy", "/help")],
)
def test_an_unknown_word_names_the_nearest(line: str, near: str) -> None:
    found = REGISTRY.read(line, SKILLS)
    assert isinstance(found, Unknown)
    assert "nothing was sent" in found.told
    assert near in found.told


@given(st.text(max_size=30))
def test_no_line_is_lost_and_none_fails(text: str) -> None:
    found = REGISTRY.read(text, SKILLS)
    assert isinstance(found, Unknown) or found.command or found.text.strip() in text


def test_the_gateway_lacks_what_only_a_terminal_can_do() -> None:
    gateway = Registry("gateway")
    assert gateway.find("quit") is None
    assert gateway.find("save") is None
    assert gateway.find("usage") is not None


def test_the_page_has_the_table_of_all_commands() -> None:
    assert table() in PAGE.read_text()


def test_a_command_without_arguments_refuses_them() -> None:
    found = Registry("terminal").read("/retry now", ())
    assert isinstance(found, Unknown)
    assert found.told == "/retry takes no arguments, so nothing was done; //retry sends the line as text"


@pytest.mark.parametrize("line", ["/good!", "/undo.", "/hlep: x"])
def test_a_command_with_a_typing_mistake_is_not_sent(line: str) -> None:
    assert isinstance(Registry("terminal").read(line, ()), Unknown)
