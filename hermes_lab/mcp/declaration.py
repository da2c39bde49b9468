"""The declaration of a server's tool: its name for the model, its schema, and its digest; or why it is left out."""

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic import model_validator

from hermes_lab.memory.scan import refusal, scan
from hermes_lab.tools.schema import Arguments
from hermes_lab.tools.toolsets import SEPARATOR

_LONGEST = 64  # the limit of OpenAI and Anthropic
_LARGEST_SCHEMA = 64_000
_DEEPEST = 40
_OTHER = re.compile(r"[^A-Za-z0-9_-]")


class Declared(NamedTuple):
    """A tool as the model sees it. `own_name` is the server's; `digest` covers all that the server says of it."""

    name: str
    own_name: str
    description: str
    parameters: dict[str, Any]
    arguments: type[Arguments]
    read_only: bool
    digest: str

    @property
    def schema(self) -> dict[str, Any]:
        """The OpenAI function schema."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}


def digest_of(tool: Mapping[str, Any]) -> str:
    """The sha256 of a tool as listed, without metadata such as its title."""
    said = {name: tool.get(name) for name in ("name", "description", "inputSchema", "outputSchema")}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode(errors="replace")).hexdigest()


def declare(server: str, tool: Mapping[str, Any]) -> Declared | str:
    """The declaration of a tool as listed by `tools/list`, or the reason why it cannot be offered.

    Left out are tools whose schema no provider accepts (one would refuse every request), and those whose texts attack
    the agent that reads them.
    """
    own, description = tool["name"], tool.get("description") or ""
    if not own.strip():
        return "it has no name"
    if not isinstance(description, str):
        return "its description is no text"
    schema = tool.get("inputSchema")
    if len(json.dumps(tool)) > _LARGEST_SCHEMA:
        return f"its declaration is longer than {_LARGEST_SCHEMA} characters"
    if wrong := _wrong_schema(schema):
        return f"its schema {wrong}"
    assert isinstance(schema, dict)
    try:
        parameters = _inlined(schema)
    except _Unresolved as error:
        return f"its schema {error}"
    for said in (own, description, *_texts(parameters)):
        if findings := scan(said):
            return f"its description attacks the agent: {refusal(findings)}"
    parameters = {"properties": {}} | {key: value for key, value in parameters.items() if key != "$schema"}
    annotations = tool.get("annotations") or {}
    read_only = isinstance(annotations, Mapping) and annotations.get("readOnlyHint") is True
    arguments = arguments_of(parameters)
    return Declared(_name(server, own), own, description, parameters, arguments, read_only, digest_of(tool))


def _name(server: str, own: str) -> str:
    name = f"{server}{SEPARATOR}{_OTHER.sub('_', own)}"
    if len(name) <= _LONGEST:
        return name
    return f"{name[: _LONGEST - 7]}_{hashlib.sha256(own.encode(errors='replace')).hexdigest()[:6]}"


def _wrong_schema(schema: Any) -> str:
    from jsonschema import SchemaError
    from jsonschema.validators import validator_for

    if not isinstance(schema, dict) or schema.get("type") != "object":
        return "is not that of an object"
    if _depth(schema) > _DEEPEST:
        return f"is nested deeper than {_DEEPEST}"
    try:
        validator_for(schema).check_schema(schema)
    except SchemaError as error:
        where = ".".join(map(str, error.absolute_path))
        return f"is invalid{f' at {where}' if where else ''}: {error.message[:200]}"
    return _unaccepted(schema)


def _depth(node: Any) -> int:
    deepest, waiting = 0, [(node, 1)]
    while waiting:
        each, depth = waiting.pop()
        deepest = max(deepest, depth)
        inner = each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
        waiting += [(value, depth + 1) for value in inner]
    return deepest


def _unaccepted(node: Any, at: str = "") -> str:
    """What is valid JSON Schema but refused by providers: an array that does not say of what."""
    if isinstance(node, list):
        return next(filter(None, (_unaccepted(each, at) for each in node)), "")
    if not isinstance(node, dict):
        return ""
    kinds = node.get("type")
    if (kinds == "array" or (isinstance(kinds, list) and "array" in kinds)) and not {"items", "prefixItems"} & set(
        node
    ):
        return f"has an array without `items` at {at or 'its root'}"
    inner = ((key, value) for key, value in node.items() if key not in ("enum", "const", "default", "examples"))
    return next(filter(None, (_unaccepted(value, f"{at}.{key}".lstrip(".")) for key, value in inner)), "")


class _Unresolved(Exception):
    pass


def _inlined(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema without `$ref`, which many servers and small models do not support."""

    def resolve(pointer: str) -> Any:
        found: Any = schema
        if not pointer.startswith("#"):
            raise _Unresolved(f"refers to another document: {pointer[:100]}")
        for part in filter(None, pointer[1:].split("/")):
            part = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or part not in found:
                raise _Unresolved(f"has a reference that leads nowhere: {pointer[:100]}")
            found = found[part]
        return found

    def inline(node: Any, within: tuple[str, ...]) -> Any:
        if isinstance(node, list):
            return [inline(each, within) for each in node]
        if not isinstance(node, dict):
            return node
        if isinstance(reference := node.get("$ref"), str):
            if reference in within:
                return {}  # recursive: anything
            others = {key: value for key, value in node.items() if key != "$ref"}
            return inline(resolve(reference), (*within, reference)) | inline(others, within)
        return {key: inline(value, within) for key, value in node.items() if key not in ("$defs", "definitions")}

    whole: dict[str, Any] = inline(schema, ())
    return whole


def _texts(node: Any) -> list[str]:
    """The texts of a schema that a model reads: descriptions, titles and names."""
    if isinstance(node, list):
        return [text for each in node for text in _texts(each)]
    if not isinstance(node, dict):
        return []
    own = [value for key, value in node.items() if key in ("description", "title") and isinstance(value, str)]
    return [*own, *(text for value in node.values() for text in _texts(value))]


def arguments_of(parameters: dict[str, Any]) -> type[Arguments]:
    """Arguments that the tool's own schema judges. A null that it does not allow means that the argument was left
    out."""
    from jsonschema.exceptions import best_match
    from jsonschema.validators import validator_for

    kind = validator_for(parameters)
    whole = kind(parameters)
    required = parameters.get("required", ())
    allow_null = {name: kind(each).is_valid(None) for name, each in parameters.get("properties", {}).items()}

    class Given(Arguments):
        model_config = Arguments.model_config | {"extra": "allow"}

        @classmethod
        def _is_noise(cls, name: str, value: Any) -> bool:
            return value is None and name not in required and not allow_null.get(name, True)

        @model_validator(mode="after")
        def _fits(self) -> "Given":
            if error := best_match(whole.iter_errors(self.passed())):
                where = ".".join(map(str, error.absolute_path))
                raise ValueError(f"{f'{where}: ' if where else ''}{error.message[:500]}")
            return self

    return Given
