"""Reads YAML for configurations: YAML 1.2 types, keeping the text of every plain scalar.

PyYAML follows YAML 1.1, in which `3:30` is 210, `1_000` is 1000 and `2024-10-21` is a date. Here they are strings.
Whether `1.10` is a number or a string is up to the field.
"""

import re
from dataclasses import dataclass
from typing import Any, NamedTuple

import yaml

_TRUE = frozenset({"true", "yes", "on"})
_TAG = "tag:yaml.org,2002:"


@dataclass(frozen=True, slots=True)
class Plain:
    """An unquoted number or boolean: the text as written, and its value for fields that are not strings."""

    text: str
    value: Any


class Document(NamedTuple):
    """The content of a YAML text. `lines` maps the path of each key and list item to its line."""

    content: Any
    lines: dict[tuple[str, ...], int]


class _Loader(yaml.SafeLoader):
    # Registered under None: tried for every plain scalar, whatever its first character.
    yaml_implicit_resolvers: dict[Any, list[tuple[str, re.Pattern[str]]]] = {  # noqa: RUF012  (declared so by PyYAML)
        None: [
            (f"{_TAG}null", re.compile(r"(?:~|null|Null|NULL|)\Z")),
            # yes, no, on and off are YAML 1.1, kept for compatibility in untyped fields (`options`).
            (f"{_TAG}bool", re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z")),
            (f"{_TAG}bool", re.compile(r"(?:yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF)\Z")),
            (f"{_TAG}int", re.compile(r"(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)\Z")),
            (f"{_TAG}float", re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")),
            (f"{_TAG}float", re.compile(r"(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z")),
            (f"{_TAG}merge", re.compile(r"<<\Z")),
        ]
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Keys must be strings, as in JSON."""
        if not isinstance(node, yaml.MappingNode):
            return super().construct_mapping(node, deep=deep)  # raises the right error
        self.flatten_mapping(node)
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key must be a string", key.start_mark)
        return {key.value: self.construct_object(value, deep=deep) for key, value in node.value}

    def plain_bool(self, node: yaml.ScalarNode) -> Plain:
        """A boolean."""
        return Plain(node.value, node.value.lower() in _TRUE)

    def plain_int(self, node: yaml.ScalarNode) -> Plain:
        """An integer; one that Python cannot parse stays a string."""
        text: str = node.value
        try:
            return Plain(text, int(text, {"0o": 8, "0x": 16}.get(text[:2], 10)))
        except ValueError:
            return Plain(text, text)

    def plain_float(self, node: yaml.ScalarNode) -> Plain:
        """A number, infinity or NaN."""
        text: str = node.value
        try:
            return Plain(text, float(text.lower().replace(".inf", "inf").replace(".nan", "nan")))
        except ValueError:
            return Plain(text, text)


_Loader.add_constructor(f"{_TAG}bool", _Loader.plain_bool)
_Loader.add_constructor(f"{_TAG}int", _Loader.plain_int)
_Loader.add_constructor(f"{_TAG}float", _Loader.plain_float)


def read_yaml(text: str) -> Document:
    """Reads one YAML document. Numbers and booleans in it are `Plain`.

    Raises `yaml.YAMLError`, or `ValueError` for a document that is nested too deeply or a value that its tag does not
    allow.
    """
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return Document(None, {})
        content = loader.construct_document(node)
        lines: dict[tuple[str, ...], int] = {}
        _note_lines(node, (), lines)
        return Document(content, lines)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    finally:
        loader.dispose()


def as_written(text: str) -> str:
    """The string that an override gives to a string field: unquoted if it is quoted, else unchanged."""
    bare = text.strip()
    if bare[:1] not in ("'", '"') and "\n" not in bare:
        return bare
    try:
        node = yaml.compose(text, Loader=_Loader)
    except (yaml.YAMLError, ValueError, RecursionError):
        return bare
    return node.value if isinstance(node, yaml.ScalarNode) else bare


def _note_lines(node: yaml.Node, at: tuple[str, ...], lines: dict[tuple[str, ...], int]) -> None:
    if isinstance(node, yaml.MappingNode):
        seen: dict[str, int] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen and key.value != "<<":
                    problem = f"{key.value} is set twice, first in line {seen[key.value]}; keep one of the two"
                    raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
                seen[key.value] = line
            lines[*at, key.value] = line
            _note_lines(value, (*at, key.value), lines)
    elif isinstance(node, yaml.SequenceNode):
        for number, item in enumerate(node.value):
            lines[*at, str(number)] = item.start_mark.line + 1
            _note_lines(item, (*at, str(number)), lines)
