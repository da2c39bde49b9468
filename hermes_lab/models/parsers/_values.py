"""Parses JSON written by models, and converts text values by a tool's schema."""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

Schemas = Sequence[Mapping[str, Any]]

UNCARRIABLE = "it contains a number or a character that JSON cannot represent"
_WINDOW = 4096
_SHOWN = 80  # characters of a name in a message
_LONGEST_TOKEN = 16  # `-Infinity`, or an escaped surrogate pair: a window may cut a token up to this length
_SPACE = re.compile(r"\s*+")
_REST_OF_STRING = re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)


class Unreadable(ValueError):
    """The text is not a call. Everything before `at` has been parsed and contains no other call."""

    def __init__(self, reason: str, at: int) -> None:
        super().__init__(reason)
        self.at = at


def decode(text: str, start: int) -> tuple[Any, int]:
    """One JSON value from `start` on, and its end. Raises `Unreadable` for invalid JSON or values that records cannot
    hold.

    Raw line breaks in strings are accepted: small models write them, and they are unambiguous. Duplicate keys are
    ambiguous, and refused.
    """
    start = skip_space(text, start)
    value, end, faults = _scan(text, start)
    try:
        msgspec.json.encode(value)
    except (UnicodeEncodeError, OverflowError, RecursionError, msgspec.MsgspecError):
        faults.append(UNCARRIABLE)
    if faults:
        raise Unreadable(faults[0], end)
    return value, end


def parse_arguments(arguments: object) -> dict[str, Any]:
    """The arguments of a call: an object, a string containing one, or nothing for no arguments.

    Raises `ValueError` saying what is wrong.
    """
    if isinstance(arguments, str):
        arguments = _loads(arguments) if arguments.strip() else {}
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        raise ValueError(f"arguments must be a JSON object, not {kind(arguments)}")
    return arguments


def from_text(text: str, schema: object, root: Mapping[str, Any]) -> Any:
    """Converts bare text by the `schema` of a parameter; its `$ref`s point into `root`.

    A string stays as written, even if it looks like JSON. Invalid JSON stays a string too, and validation then tells
    the model. If a string is one alternative of several, JSON of another alternative is preferred.
    """
    types = set(_types(schema, root, set())) or {"string"}
    if types == {"string"}:
        return text
    try:
        value = _loads(text)
    except ValueError:
        return text
    return value if "string" not in types or types & _types_of(value) else text


def parameters_of(name: str, schemas: Schemas) -> Mapping[str, Any]:
    """The JSON schema of a function's arguments; empty for an unknown function."""
    for schema in schemas:
        function = _mapping(schema.get("function"))
        if function.get("name") == name:
            return _mapping(function.get("parameters"))
    return {}


def can_be_carried(text: str) -> bool:
    """Whether JSON can represent the text; a lone surrogate cannot be."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def skip_space(text: str, at: int) -> int:
    """The index of the first non-whitespace character from `at` on."""
    space = _SPACE.match(text, at)
    return space.end() if space else at


def kind(value: object) -> str:
    """The type of a JSON value, in words."""
    if value is None:
        return "null"
    return {dict: "an object", list: "an array", str: "a string", bool: "a boolean"}.get(type(value), "a number")


def _loads(text: str) -> Any:
    try:
        value, end = decode(text, 0)
    except Unreadable as error:
        raise ValueError(str(error)) from None  # drops `at`, an index into this text only
    if text[end:].strip():
        raise ValueError("there is text after the JSON object")
    return value


def _scan(text: str, start: int) -> tuple[Any, int, list[str]]:
    """A value, its end, and what is wrong with it despite being readable.

    Every error of `json` counts the lines of the whole document before it, so many broken calls would take quadratic
    time. Growing windows avoid that.
    """
    size = _WINDOW
    while True:
        window, cut = text[start : start + size], start + size < len(text)
        faults: list[str] = []
        try:
            value, used = _decoder(faults).raw_decode(window)
        except json.JSONDecodeError as error:
            unterminated = error.msg.startswith("Unterminated string")
            if cut and (unterminated or error.pos > size - _LONGEST_TOKEN):
                size *= 4
                continue
            at = len(text) if unterminated else start + error.pos
            if "escape" in error.msg:
                at = _end_of_string(text, at)
            raise Unreadable(f"not JSON at character {error.pos}: {error.msg}", at) from None
        except RecursionError:
            raise Unreadable("nested too deeply", len(text)) from None
        if cut and used == size:
            size *= 4
            continue
        return value, start + used, faults


def _end_of_string(text: str, at: int) -> int:
    rest = _REST_OF_STRING.match(text, at)
    return rest.end() if rest else at


def _decoder(faults: list[str]) -> json.JSONDecoder:
    """A decoder that collects in `faults` what is not JSON or ambiguous, and continues."""

    def constant(name: str) -> None:
        faults.append(f"{name} is not JSON")

    def integer(digits: str) -> int:
        try:
            return int(digits)
        except ValueError:  # more digits than Python accepts
            faults.append(UNCARRIABLE)
            return 0

    def real(digits: str) -> float:
        value = float(digits)
        if math.isinf(value):
            faults.append(UNCARRIABLE)
        return value

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) < len(pairs):
            twice, _ = Counter(key for key, _ in pairs).most_common(1)[0]
            faults.append(f"{json.dumps(twice[:_SHOWN])} occurs twice in one object")
        return value

    return json.JSONDecoder(
        strict=False, parse_constant=constant, parse_int=integer, parse_float=real, object_pairs_hook=members
    )


def _types(schema: object, root: Mapping[str, Any], seen: set[str]) -> Iterator[str]:
    """The JSON types that a schema allows; none if it does not say."""
    schema = _mapping(schema)
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference not in seen:
        seen.add(reference)
        yield from _types(_resolve(reference, root), root, seen)
    named = schema.get("type")
    yield from (named,) if isinstance(named, str) else (name for name in _list(named) if isinstance(name, str))
    for value in [*_list(schema.get("enum")), *([schema["const"]] if "const" in schema else [])]:
        yield from _types_of(value)
    for keyword in ("anyOf", "oneOf", "allOf"):
        for choice in _list(schema.get(keyword)):
            yield from _types(choice, root, seen)


def _resolve(reference: str, root: Mapping[str, Any]) -> object:
    node: object = root
    for part in reference.removeprefix("#/").split("/"):
        node = _mapping(node).get(part)
    return node


def _types_of(value: object) -> set[str]:
    if isinstance(value, int) and not isinstance(value, bool):
        return {"integer", "number"}
    return {
        {type(None): "null", bool: "boolean", str: "string", list: "array", dict: "object"}.get(type(value), "number")
    }


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
