"""`hermes-lab tools`: what there is, how many, and one tool as the model sees it."""

import json

import pytest

from hermes_lab.errors import ConfigError
from hermes_lab.runners.cli import app


def printed(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    app(["tools", *args], standalone_mode=False)
    return capsys.readouterr().out


def test_tools_of_the_given_toolsets_are_listed_and_counted_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "list", "file").endswith("\n\n4 tools in 1 toolset\n")
    both = printed(capsys, "list", "reading", "file")
    assert both.endswith("\n\n4 tools in 2 toolsets\n")  # two are in both
    assert "distributions" not in both
    assert "distributions" in printed(capsys, "list")
    assert list(json.loads(printed(capsys, "list", "file", "--json"))["toolsets"]) == ["file"]


def test_a_tool_is_shown_with_its_schema(capsys: pytest.CaptureFixture[str]) -> None:
    said = printed(capsys, "show", "terminal")
    assert said.startswith("terminal  (toolset terminal)\n\n")
    assert '"command"' in said
    schema = json.loads(printed(capsys, "show", "terminal", "--json"))["schema"]
    assert schema["function"]["parameters"]["required"] == ["command"]


def test_unknown_names_are_told_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"no tool 'termnal'; did you mean terminal\?"):
        app(["tools", "show", "termnal"], standalone_mode=False)
    with pytest.raises(ConfigError, match="no toolset 'fiel'"):
        app(["tools", "list", "fiel"], standalone_mode=False)
