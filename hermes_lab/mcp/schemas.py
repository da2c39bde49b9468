"""The schemas of servers' tools in the one form that providers and the lab understand: JSON Schema 2020-12 without
references."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

LARGEST = 64_000
"""Characters of a declaration, and of a schema whose references are replaced."""
_DEEPEST = 40
_BY_NAME = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"})
_DATA = frozenset({"enum", "const", "default", "examples"})
_DROPPED = frozenset({"$schema", "$id", "$anchor", "$defs", "definitions"})
_ESCAPED = re.compile("%([0-9A-Fa-f]{2})")


class UnusableSchemaError(Exception):
    """Why no provider accepts a schema, as the end of a sentence about it."""


def usable(schema: Any) -> dict[str, Any]:
    """The schema of a tool's arguments, with references replaced and the words of older drafts translated. Raises
    `UnusableSchemaError`."""
    from jsonschema import Draft202012Validator, SchemaError

    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise UnusableSchemaError("is not that of an object")
    whole: dict[str, Any] = {"properties": {}} | _Plain(schema).schema(schema, (), 1)
    if len(json.dumps(whole)) > LARGEST:
        raise UnusableSchemaError(f"is longer than {LARGEST} characters once its references are replaced")
    try:
        Draft202012Validator.check_schema(checkable(whole))
    except SchemaError as error:
        where = ".".join(map(str, error.absolute_path))
        raise UnusableSchemaError(f"is invalid{f' at {where}' if where else ''}: {error.message[:200]}") from None
    for at, each in _schemas(whole):
        kinds = each.get("type")
        is_array = kinds == "array" or (isinstance(kinds, list) and "array" in kinds)
        if is_array and not {"items", "prefixItems"} & set(each):
            raise UnusableSchemaError(f"has an array without `items` at {at or 'its root'}")
    return whole


def checkable(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema without the patterns that only JavaScript understands, such as `\\p{L}`."""

    def kept(each: dict[str, Any]) -> dict[str, Any]:
        named = each.get("patternProperties")
        if isinstance(named, dict):
            each = each | {"patternProperties": {key: value for key, value in named.items() if _is_pattern(key)}}
        return {key: value for key, value in each.items() if key != "pattern" or _is_pattern(value)}

    checked: dict[str, Any] = _mapped(schema, kept)
    return checked


def texts(node: Any) -> Iterator[str]:
    """All that a model reads in a schema: every text in it, and every name."""
    if isinstance(node, str):
        yield node
    elif isinstance(node, list):
        for each in node:
            yield from texts(each)
    elif isinstance(node, dict):
        for key, value in node.items():
            yield key
            yield from texts(value)


class _Plain:
    """Replaces the references in one schema, whose size and depth are limited: a few of them can refer to each other in
    more ways than fit into memory."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._nodes = 0

    def schema(self, node: Any, within: tuple[str, ...], depth: int) -> Any:
        """A schema, which lies within what the references `within` refer to."""
        self._nodes += 1
        if self._nodes > LARGEST // 2:
            raise UnusableSchemaError(f"is longer than {LARGEST} characters once its references are replaced")
        if max(depth, len(within)) > _DEEPEST:
            raise UnusableSchemaError(f"is nested deeper than {_DEEPEST}")
        if isinstance(node, list):
            return [self.schema(each, within, depth + 1) for each in node]
        if not isinstance(node, dict):
            return node
        if dynamic := {"$dynamicRef", "$recursiveRef"} & set(node):
            raise UnusableSchemaError(f"has a {min(dynamic)}, which is not supported")
        own = {key: self._value(key, value, within, depth + 1) for key, value in node.items() if key not in _DROPPED}
        if not isinstance(reference := own.pop("$ref", None), str):
            return _translated(own)
        if reference in within:
            return {}  # recursive: anything
        found = self._referred(reference)
        referred = self.schema(found, (*within, reference), depth)
        if isinstance(referred, bool):
            referred = {} if referred else {"not": {}}
        if not isinstance(referred, dict):
            raise UnusableSchemaError(f"has a reference to something that is not a schema: {reference[:100]}")
        return referred | _translated(own)

    def _value(self, key: str, value: Any, within: tuple[str, ...], depth: int) -> Any:
        if key in _DATA:
            return value
        if key in _BY_NAME and isinstance(value, dict):
            return {name: self.schema(each, within, depth + 1) for name, each in value.items()}
        return self.schema(value, within, depth)

    def _referred(self, pointer: str) -> Any:
        found: Any = self._root
        if not pointer.startswith("#"):
            raise UnusableSchemaError(f"refers to another document: {pointer[:100]}")
        for part in filter(None, pointer[1:].split("/")):
            part = _ESCAPED.sub(lambda match: chr(int(match[1], 16)), part).replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and part.isdecimal() and int(part) < len(found):
                found = found[int(part)]
            elif isinstance(found, dict) and part in found:
                found = found[part]
            else:
                raise UnusableSchemaError(f"has a reference that leads nowhere: {pointer[:100]}")
        return found


def _translated(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema in the words of 2020-12: tuples and exclusive limits were written otherwise in older drafts."""
    if isinstance(items := schema.get("items"), list):
        rest = {"items": schema["additionalItems"]} if "additionalItems" in schema else {}
        others = {key: value for key, value in schema.items() if key not in ("items", "additionalItems")}
        schema = others | {"prefixItems": items} | rest
    for exclusive, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(strict := schema.get(exclusive), bool):
            schema = {key: value for key, value in schema.items() if key != exclusive}
            if strict and limit in schema:
                schema[exclusive] = schema.pop(limit)
    return schema


def _is_pattern(text: Any) -> bool:
    try:
        return isinstance(text, str) and bool(re.compile(text))
    except re.error:
        return False


def _mapped(node: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """The schema with every schema in it changed."""
    if isinstance(node, list):
        return [_mapped(each, change) for each in node]
    if not isinstance(node, dict):
        return node
    return {
        key: value
        if key in _DATA
        else {name: _mapped(each, change) for name, each in value.items()}
        if key in _BY_NAME and isinstance(value, dict)
        else _mapped(value, change)
        for key, value in change(node).items()
    }


def _schemas(node: Any, at: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema in a schema, with the path to it."""
    if isinstance(node, list):
        for each in node:
            yield from _schemas(each, at)
    if not isinstance(node, dict):
        return
    yield at, node
    for key, value in node.items():
        below = f"{at}.{key}".lstrip(".")
        if key in _BY_NAME and isinstance(value, dict):
            for name, each in value.items():
                yield from _schemas(each, f"{below}.{name}")
        elif key not in _DATA:
            yield from _schemas(value, below)
