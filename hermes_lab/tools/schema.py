"""Builds the declaration of a tool for the model from the signature and docstring of its handler."""

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
    """The arguments of a tool call; unknown arguments are errors.

    `null` for an argument with a default means the default, unless null is a valid value. Keywords of the schema that a
    model copied into its arguments are dropped.
    """

    model_config = ConfigDict(extra="forbid")

    def passed(self) -> dict[str, Any]:
        """The arguments by name, with defaults."""
        return vars(self) | (self.model_extra or {})

    @model_validator(mode="before")
    @classmethod
    def _without_noise(cls, given: Any) -> Any:
        """Drops every `null` that means "left out", and copied keywords of the schema."""
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
    """Marks an argument that only exists if the tool `name` is also enabled: `Annotated[bool, When("process")]`.

    The argument needs a default. In docstrings, `{process: ...}` does the same for text, and `{full: ...}` and
    `{compact: ...}` select text for a profile of the prompt.
    """

    name: str


@dataclass(frozen=True)
class InCompact:
    """Gives an argument another type in prompts of the profile `compact`, whose schemas change only with `PROMPTS`.

    `Annotated[Literal["add", "list"], InCompact(Literal["add"])]` is an argument that gained a choice later. Arguments
    that are new themselves are marked with `When("full")`.
    """

    type: Any


class Declaration(NamedTuple):
    """The OpenAI function schema of a tool, and the model that validates its arguments."""

    schema: dict[str, Any]
    arguments: type[Arguments]


@cache
def declare(handler: Callable[..., Any], beside: frozenset[str], profile: Profile = "full") -> Declaration:
    """Returns the declaration of `handler` if the tools `beside` are also enabled; it mentions no other tools.

    The first parameter, the context, is left out. The first paragraph of the docstring describes the tool, and its
    `Args:` section the arguments. Raises `TypeError` if the docstring describes an unknown argument.
    """
    name, conditions = handler.__name__, beside | {profile}
    arguments = _arguments_model(handler, conditions)
    text = _expanded(" ".join((inspect.getdoc(handler) or "").split("\n\n")[0].split()), conditions)
    function = {"name": name, "description": text, "parameters": _compact(_inlined(arguments.model_json_schema()))}
    return Declaration({"type": "function", "function": function}, arguments)


@cache
def related(handler: Callable[..., Any]) -> frozenset[str]:
    """Returns the tools on which the declaration of `handler` depends."""
    in_text = {match["tool"] for match in _CONDITION.finditer(" ".join((inspect.getdoc(handler) or "").split()))}
    in_signature = {
        mark.name
        for parameter in inspect.signature(handler, eval_str=True).parameters.values()
        for mark in _conditions(parameter)
    }
    return frozenset((in_text | in_signature).difference(get_args(Profile)))


def explain(error: ValidationError) -> str:
    """Formats a validation error of the arguments in one line."""
    parts = []
    for item in error.errors(include_url=False):
        where = ".".join(str(part) for part in item["loc"])
        what = "unknown argument" if item["type"] == "extra_forbidden" else item["msg"]
        parts.append(f"{where}: {what}" if where else what.removeprefix("Value error, "))
    return "; ".join(parts)


def _arguments_model(handler: Callable[..., Any], beside: Collection[str]) -> type[Arguments]:
    described = _described_arguments(handler)
    signature = inspect.signature(handler, eval_str=True)
    fields: dict[str, Any] = {}
    for name, parameter in list(signature.parameters.items())[1:]:
        text = described.pop(name, None)
        if all(mark.name in beside for mark in _conditions(parameter)):
            default = ... if parameter.default is parameter.empty else parameter.default
            fields[name] = (
                _annotation(parameter, beside),
                Field(default, description=text and _expanded(text, beside)),
            )
    if described:
        raise TypeError(f"{handler.__name__}: the docstring describes {', '.join(described)}, which it does not take")
    return create_model(handler.__name__, __base__=Arguments, **fields)


def _annotation(parameter: inspect.Parameter, beside: Collection[str]) -> Any:
    compact = [mark.type for mark in getattr(parameter.annotation, "__metadata__", ()) if isinstance(mark, InCompact)]
    return compact[0] if compact and "compact" in beside else parameter.annotation


def _conditions(parameter: inspect.Parameter) -> list[When]:
    return [mark for mark in getattr(parameter.annotation, "__metadata__", ()) if isinstance(mark, When)]


def _expanded(text: str, beside: Collection[str]) -> str:
    """Replaces `{tool: text}` by its text if the tool or profile is in `beside`, and removes it otherwise."""
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
    """Resolves every `$ref` in the schema, since many servers and small models do not support references."""
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
    """Shortens the schema, which is part of every prompt: drops titles and empty defaults, and writes an optional
    `X | None` as `X`, since leaving it out means None.

    With `names`, the keys of `node` are names of arguments, not JSON schema keywords.
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
