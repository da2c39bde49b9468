"""Tools given by a task, with an explicit schema and a function that may keep its own state."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import create_model

from hermes_lab.tools.registry import GivenTool, ToolContext
from hermes_lab.tools.schema import Arguments, Declaration

TOOLSET = "given"
_LEFT_OUT: Any = object()


def given_tool(
    name: str,
    description: str,
    parameters: Mapping[str, Any],
    call: Callable[..., dict[str, Any]],
) -> GivenTool:
    """Returns a tool that runs `call` in a thread, with only the arguments that the model passed.

    `parameters` is the JSON schema of an object and goes to the model unchanged. Only the names of the arguments are
    validated; unknown and missing ones are errors, and `call` must check the values. Exceptions of `call` are returned
    to the model as errors of the tool.
    """
    function = {"name": name, "description": description, "parameters": dict(parameters)}

    def handler(ctx: ToolContext, **arguments: Any) -> dict[str, Any]:
        del ctx
        return call(**{key: value for key, value in arguments.items() if value is not _LEFT_OUT})

    model = _names_only(name, parameters.get("properties", {}), parameters.get("required", ()))
    declaration = Declaration({"type": "function", "function": function}, model)
    return GivenTool(name, TOOLSET, handler, declaration=declaration)


def _names_only(name: str, properties: Mapping[str, Any], required: Sequence[str]) -> type[Arguments]:
    fields: dict[str, Any] = {
        key: (Any | None if _takes_null(schema) else Any, ... if key in required else _LEFT_OUT)
        for key, schema in properties.items()
    }
    return create_model(name, __base__=Arguments, **fields)


def _takes_null(schema: object) -> bool:
    """Whether the schema allows null as a value, so that it does not mean that the argument was left out."""
    if not isinstance(schema, Mapping):
        return False
    kinds = schema.get("type") or ()
    choices = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    named = "null" in ([kinds] if isinstance(kinds, str) else kinds) or None in schema.get("enum", ())
    return named or any(map(_takes_null, choices))
