"""A configuration from YAML files and `key=value` overrides, merged left to right, checked against its schema."""

import copy
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from hermes_lab.config import RunConfig, Section
from hermes_lab.errors import ConfigError

S = TypeVar("S", bound=Section)

_OVERRIDE = re.compile(r"(?P<key>[A-Za-z_][\w.]*)=(?P<value>.*)", re.DOTALL)


def load_config(sources: Sequence[str], base: dict[str, Any] | None = None) -> RunConfig:
    """Merges YAML files and `a.b=value` overrides, left to right, over the dumped configuration `base`; a value is read
    as YAML.

    Raises `ConfigError` with the file and line, or the override, that holds the mistake.
    """
    return load_section(RunConfig, sources, base)


def load_section(schema: type[S], sources: Sequence[str], base: dict[str, Any] | None = None) -> S:
    """`load_config` for any schema."""
    merged: dict[str, Any] = copy.deepcopy(base or {})
    origins: dict[tuple[str, ...], str] = {}
    for source in sources:
        override = _OVERRIDE.fullmatch(source)
        if override:
            _merge_override(merged, origins, override["key"], override["value"])
        else:
            _merge_file(merged, origins, Path(source))
    try:
        return schema.model_validate(merged)
    except ValidationError as error:
        raise ConfigError(_one_line(schema, error, origins)) from None


def _merge_override(merged: dict[str, Any], origins: dict[tuple[str, ...], str], key: str, value: str) -> None:
    path = tuple(key.split("."))
    try:
        parsed = yaml.safe_load(value) if value else ""
    except (yaml.YAMLError, ValueError):
        parsed = value
    nested: Any = parsed
    for part in reversed(path):
        nested = {part: nested}
    _merge(merged, nested)
    for depth in range(1, len(path)):
        origins.setdefault(path[:depth], f"override {key}={value}")
    origins[path] = f"override {key}={value}"


def _merge_file(merged: dict[str, Any], origins: dict[tuple[str, ...], str], path: Path) -> None:
    try:
        text = path.read_text()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not a text file in UTF-8") from None
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "not YAML"
        raise ConfigError(f"{path}{line}: {problem}") from None
    except ValueError as error:  # such as a date that no calendar has
        raise ConfigError(f"{path}: {error}") from None
    if content is None:
        return
    if not isinstance(content, dict):
        raise ConfigError(f"{path}:1: expected a mapping of sections, found a {type(content).__name__}")
    _merge(merged, content)
    _note_lines(node, (), path, origins)


def _note_lines(node: yaml.Node | None, at: tuple[str, ...], path: Path, origins: dict[tuple[str, ...], str]) -> None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            inner = (*at, str(key.value))
            origins[inner] = f"{path}:{key.start_mark.line + 1}"
            _note_lines(value, inner, path, origins)


def _merge(base: dict[str, Any], new: dict[str, Any]) -> None:
    for key, value in new.items():
        if isinstance(value, dict) and isinstance(base.get(key), dict):
            _merge(base[key], value)
        else:
            base[key] = value


_PLAIN = {
    "missing": "must be given",
    "too_short": "give at least one",
    "tuple_type": "give a list, such as [a, b]",
    "dict_type": "give `name: value` pairs",
    "model_type": "is a section: give its fields",
    "bool_parsing": "give true or false",
    "int_parsing": "give a whole number",
    "int_from_float": "give a whole number",
    "int_type": "give a whole number",
    "float_parsing": "give a number",
    "float_type": "give a number",
    "finite_number": "give a number that is finite",
}
"""What is wrong with a value by pydantic's type of error, where its own words name Python's types."""


def _one_line(schema: type[Section], error: ValidationError, origins: dict[tuple[str, ...], str]) -> str:
    first = error.errors()[0]
    location = tuple(str(part) for part in first["loc"])
    field = ".".join(location)
    where = next((origins[location[:n]] for n in range(len(location), 0, -1) if location[:n] in origins), "")
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        message = f"no such field; there are: {', '.join(_fields(schema, location[:-1]))}"
    elif first["type"] == "literal_error":
        message = f"give {first['ctx']['expected']}"
    message = _PLAIN.get(first["type"], message)
    others = [".".join(map(str, other["loc"])) for other in error.errors()[1:]]
    more = f" (wrong, too: {', '.join(others[:5])}{', ...' * (len(others) > 5)})" if others else ""
    return f"{where}: {field}: {message}{more}" if where else f"{field}: {message}{more}"


def _fields(schema: type[BaseModel], at: tuple[str, ...]) -> list[str]:
    """The names of the fields of a section."""
    for part in at:
        inner = schema.model_fields[part].annotation
        assert isinstance(inner, type)
        schema = inner
    return list(schema.model_fields)
