"""Tools that a task brings: the schema is given, the state is whoever made them keeps."""

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
    """A tool that runs `call` in a thread, with the arguments that the model passes and no other ones.

    `parameters` is the JSON schema of an object. It goes to the model as it is; of what comes back the names are
    checked, since an unknown or a missing argument is nobody's but the caller's mistake, and the values are left to
    `call`. What `call` raises is the tool's error.
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
    """Whether null is a value of its own there, and not another way to leave the argument out."""
    if not isinstance(schema, Mapping):
        return False
    kinds = schema.get("type") or ()
    choices = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    named = "null" in ([kinds] if isinstance(kinds, str) else kinds) or None in schema.get("enum", ())
    return named or any(map(_takes_null, choices))
