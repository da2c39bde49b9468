import json
from typing import Any, Literal

import pytest

from hermes_lab.tools.registry import Tool, ToolContext, known_tools, tool


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

    assert look.schema == {
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


def test_the_schemas_of_every_prompt_are_small() -> None:
    schemas = [known_tools()[name].schema for name in ("terminal", "skill_view", "skill_manage")]
    assert len(json.dumps(schemas, separators=(",", ":"))) < 1_100


@pytest.mark.parametrize("known", known_tools().values(), ids=lambda known: known.name)
def test_every_tool_is_described_and_closed(known: Tool) -> None:
    function = known.schema["function"]
    assert function["name"] == known.name
    assert function["description"]
    assert function["parameters"]["additionalProperties"] is False
    assert '"title"' not in json.dumps(known.schema)
