"""What a model is told of a tool, made from its handler's signature and docstring."""

import inspect
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, NamedTuple, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model, model_validator

Profile = Literal["full", "compact"]
"""The `agent.prompt` for which a tool is declared."""

_SCHEMA_WORDS = frozenset({"additionalProperties", "required", "type"})
_ARGUMENT = re.compile(r"(?P<indent>\s+)(?P<name>\w+): (?P<text>.+)")
_CONDITION = re.compile(r"\s*\{(?P<tool>\w+): (?P<text>[^{}]*)\}")


class Arguments(BaseModel):
    """What a model may pass to a tool; an argument that the tool does not have is an error.

    `null` for an argument with a default is that default, unless null is a value of its own. Words of the tool's schema
    that a model copied among its arguments say nothing, and are dropped.
    """

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _without_noise(cls, given: Any) -> Any:
        """Drops every `null` that stands for "left out", and copied words of the schema."""
        if not isinstance(given, dict):
            return given
        return {name: value for name, value in given.items() if not cls._is_noise(name, value)}

    @classmethod
    def _is_noise(cls, name: str, value: Any) -> bool:
        return cls._left_out_by_null(name) if value is None else name in _SCHEMA_WORDS and name not in cls.model_fields

    @classmethod
    def _left_out_by_null(cls, name: str) -> bool:
        field = cls.model_fields.get(name)
        return field is not None and not field.is_required() and type(None) not in get_args(field.annotation)


@dataclass(frozen=True)
class When:
    """Marks an argument that is there only where the tool `name` is enabled too: `Annotated[bool, When("process")]`.

    It needs a default. Text of a docstring has `{process: ...}` for the same purpose; there, `{full: ...}` and
    `{compact: ...}` stand for the profiles of the prompt.
    """

    name: str


class Declaration(NamedTuple):
    """What a model is told of a tool (an OpenAI function schema), and the check of what it passes."""

    schema: dict[str, Any]
    arguments: type[Arguments]


@cache
def declare(handler: Callable[..., Any], beside: frozenset[str], profile: Profile = "full") -> Declaration:
    """The declaration of `handler` where the tools `beside` are enabled too; no other tool is named in it.

    The first parameter, the context, is left out; the first paragraph of the docstring describes the tool, its section
    `Args:` the arguments. Raises `TypeError` where a description is that of no argument.
    """
    name, conditions = handler.__name__, beside | {profile}
    arguments = _arguments_model(handler, conditions)
    text = _said(" ".join((inspect.getdoc(handler) or "").split("\n\n")[0].split()), conditions)
    function = {"name": name, "description": text, "parameters": _compact(_inlined(arguments.model_json_schema()))}
    return Declaration({"type": "function", "function": function}, arguments)


@cache
def related(handler: Callable[..., Any]) -> frozenset[str]:
    """The tools on which the declaration of `handler` depends."""
    in_text = {match["tool"] for match in _CONDITION.finditer(" ".join((inspect.getdoc(handler) or "").split()))}
    in_signature = {
        mark.name
        for parameter in inspect.signature(handler, eval_str=True).parameters.values()
        for mark in _conditions(parameter)
    }
    return frozenset((in_text | in_signature).difference(get_args(Profile)))


def explain(error: ValidationError) -> str:
    """What is wrong with the arguments, in one line."""
    parts = []
    for item in error.errors(include_url=False):
        where = ".".join(str(part) for part in item["loc"])
        what = "no such argument" if item["type"] == "extra_forbidden" else item["msg"]
        parts.append(f"{where}: {what}")
    return "; ".join(parts)


def _arguments_model(handler: Callable[..., Any], beside: Collection[str]) -> type[Arguments]:
    described = _described_arguments(handler)
    signature = inspect.signature(handler, eval_str=True)
    fields: dict[str, Any] = {}
    for name, parameter in list(signature.parameters.items())[1:]:
        text = described.pop(name, None)
        if all(mark.name in beside for mark in _conditions(parameter)):
            default = ... if parameter.default is parameter.empty else parameter.default
            fields[name] = (parameter.annotation, Field(default, description=text and _said(text, beside)))
    if described:
        raise TypeError(f"{handler.__name__}: the docstring describes {', '.join(described)}, which it does not take")
    return create_model(handler.__name__, __base__=Arguments, **fields)


def _conditions(parameter: inspect.Parameter) -> list[When]:
    return [mark for mark in getattr(parameter.annotation, "__metadata__", ()) if isinstance(mark, When)]


def _said(text: str, beside: Collection[str]) -> str:
    """`text` with `{tool: ...}` opened where that tool, or profile, is among `beside`, and left out elsewhere."""
    return _CONDITION.sub(lambda match: f" {match['text']}" if match["tool"] in beside else "", text).strip()


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


def _inlined(schema: dict[str, Any]) -> Any:
    """The schema with every `$ref` replaced by what it names: many servers and small models read no references."""
    definitions = schema.pop("$defs", {})

    def inline(node: Any) -> Any:
        if isinstance(node, list):
            return [inline(item) for item in node]
        if not isinstance(node, dict):
            return node
        if "$ref" in node:
            return inline(definitions[node["$ref"].rpartition("/")[2]])
        return {key: inline(value) for key, value in node.items()}

    return inline(schema)


def _compact(node: Any, *, names: bool = False) -> Any:
    """Drops titles and empty defaults, and writes an optional `X | None` as `X`: to leave it out means None.

    The schema stands in every prompt. `names` says that the keys of `node` are names of arguments, not keywords of
    JSON schema.
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
