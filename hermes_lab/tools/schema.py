"""The OpenAI function schema of a tool, made from its handler's signature and docstring."""

import inspect
import re
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, create_model

_ARGUMENT = re.compile(r"(?P<indent>\s+)(?P<name>\w+): (?P<text>.+)")


class Arguments(BaseModel):
    """What a model may pass to a tool; an argument that the tool does not have is an error."""

    model_config = ConfigDict(extra="forbid")


def arguments_model(handler: Callable[..., Any]) -> type[Arguments]:
    """The arguments of `handler`, its first parameter (the context) left out; `Args:` describes them."""
    described = _described_arguments(handler)
    signature = inspect.signature(handler, eval_str=True)
    fields: dict[str, Any] = {}
    for name, parameter in list(signature.parameters.items())[1:]:
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[name] = (parameter.annotation, Field(default, description=described.pop(name, None)))
    if described:
        raise TypeError(f"{handler.__name__}: the docstring describes {', '.join(described)}, which it does not take")
    return create_model(handler.__name__, __base__=Arguments, **fields)


def description(handler: Callable[..., Any]) -> str:
    """The first paragraph of the docstring."""
    return " ".join((inspect.getdoc(handler) or "").split("\n\n")[0].split())


def function_schema(name: str, text: str, arguments: type[Arguments]) -> dict[str, Any]:
    """The schema as it goes to a model: small, for it stands in every prompt."""
    function = {"name": name, "description": text, "parameters": _compact(arguments.model_json_schema())}
    return {"type": "function", "function": function}


def _described_arguments(handler: Callable[..., Any]) -> dict[str, str]:
    _, _, section = (inspect.getdoc(handler) or "").partition("\nArgs:\n")
    found: dict[str, str] = {}
    name = indent = ""
    for line in section.splitlines():
        match = _ARGUMENT.fullmatch(line)
        if match and (not indent or match["indent"] == indent):
            name, indent = match["name"], match["indent"]
            found[name] = match["text"]
        elif line.startswith(" ") and name:
            found[name] += " " + line.strip()
        else:
            break
    return found


def _compact(node: Any, *, names: bool = False) -> Any:
    """Drops titles and empty defaults, and writes an optional `X | None` as `X`: to leave it out means None.

    `names` says that the keys of `node` are names of arguments, not keywords of JSON schema.
    """
    if isinstance(node, list):
        return [_compact(item) for item in node]
    if not isinstance(node, dict):
        return node
    if names:
        return {key: _compact(value) for key, value in node.items()}
    kept = {key: value for key, value in node.items() if key != "title" and (value or key != "default")}
    if len(choices := [choice for choice in kept.get("anyOf", ()) if choice != {"type": "null"}]) == 1:
        del kept["anyOf"]
        kept = {**choices[0], **kept}
    return {key: _compact(value, names=key == "properties") for key, value in kept.items()}
