import json
import re
from collections.abc import Iterator
from itertools import combinations
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel

from hermes_lab.config import SandboxConfig
from hermes_lab.sandbox import open_sandbox
from hermes_lab.tools.registry import Tool, Toolbox, ToolContext, known_tools, known_toolsets, tool
from hermes_lab.tools.schema import When, related

# What adapters were trained with and recorded runs hold: these bytes never change.
GOLDEN = (
    (
        '{"type": "function", "function": {"name": "terminal", "description": "Run a bash command. Directory '
        'and exported variables persist.", "parameters": {"additionalProperties": false, "properties": {"comm'
        'and": {"type": "string"}, "timeout": {"type": "number", "description": "Seconds."}, "workdir": {"typ'
        'e": "string"}}, "required": ["command"], "type": "object"}}}'
    ),
    (
        '{"type": "function", "function": {"name": "skill_view", "description": "Load a skill.", "parameters"'
        ': {"additionalProperties": false, "properties": {"name": {"type": "string"}, "path": {"description":'
        ' "One of its files, such as references/x.md.", "type": "string"}}, "required": ["name"], "type": "ob'
        'ject"}}}'
    ),
    (
        '{"type": "function", "function": {"name": "skill_manage", "description": "Save what was learned as a'
        ' skill. create: description and content. patch: old_string, new_string.", "parameters": {"additional'
        'Properties": false, "properties": {"action": {"enum": ["create", "edit", "patch", "delete", "write_f'
        'ile", "remove_file"], "type": "string"}, "name": {"description": "like-this", "type": "string"}, "de'
        'scription": {"description": "When to use it.", "type": "string"}, "content": {"description": "Markdo'
        'wn; with write_file, the file\'s.", "type": "string"}, "old_string": {"type": "string"}, "new_string"'
        ': {"type": "string"}, "path": {"description": "With write_file, remove_file or patch, a file such as'
        ' references/x.md.", "type": "string"}, "absorbed_into": {"description": "With delete, the skill that'
        ' holds its content now.", "type": "string"}}, "required": ["action", "name"], "type": "object"}}}'
    ),
)


def schemas(*toolsets: str) -> tuple[dict[str, Any], ...]:
    config = SandboxConfig()
    return Toolbox(toolsets, ToolContext(open_sandbox(config), None, config)).schemas


def test_the_three_tools_that_adapters_are_trained_with_look_the_same_for_ever() -> None:
    assert tuple(json.dumps(schema) for schema in schemas("terminal", "skill_view", "skill_manage")) == GOLDEN


def test_a_schema_comes_from_signature_and_docstring() -> None:
    @tool(toolset="x")
    async def look(
        ctx: ToolContext,
        title: str,
        default: Literal["a", "b"] = "a",
        seconds: float | None = None,
        deep: bool = False,
    ) -> dict[str, Any]:
        """Look at a thing
        closely.

        More, for people.

        Args:
            title: What to look at,
                by name.
            seconds: How long: at most.
        """
        return {}

    assert look.beside(()).schema == {
        "type": "function",
        "function": {
            "name": "look",
            "description": "Look at a thing closely.",
            "parameters": {
                "type": "object",
                "properties": {
                    "title": {"type": "string", "description": "What to look at, by name."},
                    "default": {"type": "string", "enum": ["a", "b"], "default": "a"},
                    "seconds": {"type": "number", "description": "How long: at most."},
                    "deep": {"type": "boolean"},
                },
                "required": ["title"],
                "additionalProperties": False,
            },
        },
    }


def test_a_description_of_no_argument_is_a_mistake() -> None:
    async def look(ctx: ToolContext, what: str) -> dict[str, Any]:
        """Look.

        Args:
            waht: A slip.
        """
        return {}

    with pytest.raises(TypeError, match="waht"):
        tool(toolset="x")(look)


class Point(BaseModel):
    x: int
    y: int | None = None


def test_a_nested_argument_stands_in_the_schema_without_references() -> None:
    @tool(toolset="x")
    async def draw(ctx: ToolContext, points: list[Point]) -> dict[str, Any]:
        """Draw."""
        return {}

    points = draw.beside(()).schema["function"]["parameters"]["properties"]["points"]
    assert points == {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
            "required": ["x"],
        },
    }


def test_what_is_said_of_another_tool_is_said_only_beside_it() -> None:
    @tool(toolset="x")
    async def look(ctx: ToolContext, what: str, dig: Annotated[bool, When("spade")] = False) -> dict[str, Any]:
        """Look. {lamp: Light it with lamp first.} Then report.

        Args:
            what: The thing. {spade: Use spade below ground.}
            dig: With spade.
        """
        return {}

    def told(*others: str) -> tuple[str, dict[str, Any]]:
        function = look.beside({"look", *others}).schema["function"]
        properties = function["parameters"]["properties"]
        return function["description"], {name: node["description"] for name, node in properties.items()}

    assert told() == ("Look. Then report.", {"what": "The thing."})
    assert told("lamp") == ("Look. Light it with lamp first. Then report.", {"what": "The thing."})
    assert told("spade") == (
        "Look. Then report.",
        {"what": "The thing. Use spade below ground.", "dig": "With spade."},
    )


def test_the_schemas_of_every_prompt_are_small() -> None:
    assert len(json.dumps(schemas("terminal", "skill_view", "skill_manage"), separators=(",", ":"))) < 1_600
    assert len(json.dumps(schemas("core"), separators=(",", ":"))) < 9_500


@pytest.mark.parametrize("known", known_tools().values(), ids=lambda known: known.name)
def test_every_tool_is_described_and_closed(known: Tool) -> None:
    for enabled in ((), known_tools()):
        schema = known.beside(enabled).schema
        function = schema["function"]
        assert function["name"] == known.name
        assert function["description"]
        assert function["parameters"]["additionalProperties"] is False
        assert '"title"' not in json.dumps(schema)
        assert "$" not in json.dumps(schema)


def _texts(node: Any) -> Iterator[str]:
    """Every description in a schema."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "description" and isinstance(value, str):
                yield value
            else:
                yield from _texts(value)
    elif isinstance(node, list):
        for item in node:
            yield from _texts(item)


def _own_words(node: Any) -> set[str]:
    """The names and values of a tool's own arguments."""
    own = set(node.get("properties", ())) | set(node.get("enum", ()))
    return own.union(*(_own_words(inner) for inner in node.get("properties", {}).values()))


@pytest.mark.parametrize("known", known_tools().values(), ids=lambda known: known.name)
def test_a_tool_names_another_only_beside_it(known: Tool) -> None:
    names = set(known_tools())
    others = related(known.handler)
    assert others <= names
    for count in range(len(others) + 1):
        for enabled in combinations(sorted(others), count):
            function = known.beside(enabled).schema["function"]
            words = set(re.findall(r"\w+", " ".join(_texts(function)))) - _own_words(function["parameters"])
            assert words & names <= {known.name, *enabled}


@pytest.mark.parametrize("toolset", known_toolsets())
def test_in_no_toolset_is_a_tool_named_that_is_not_there(toolset: str) -> None:
    functions = [schema["function"] for schema in schemas(toolset)]
    enabled = {function["name"] for function in functions}
    for function in functions:
        words = set(re.findall(r"\w+", " ".join(_texts(function)))) - _own_words(function["parameters"])
        assert words & set(known_tools()) <= enabled


def test_terminal_offers_the_background_only_where_process_looks_after_it() -> None:
    def arguments(*toolsets: str) -> set[str]:
        return set(schemas(*toolsets)[0]["function"]["parameters"]["properties"])

    assert arguments("terminal") == {"command", "timeout", "workdir"}
    assert arguments("shell") == arguments("terminal", "process") == {"command", "timeout", "workdir", "background"}
