"""Reads YAML for configurations: YAML 1.2 types, keeping the text of every plain scalar.

PyYAML follows YAML 1.1, in which `3:30` is 210, `1_000` is 1000 and `2024-10-21` is a date. Here they are strings.
Whether `1.10` is a number or a string is up to the field.
"""

import re
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import yaml

_TRUE = frozenset({"true", "yes", "on"})
_TAG = "tag:yaml.org,2002:"
_MOST = 100_000
_HIDDEN_BREAK = re.compile("[\x85\u2028\u2029]")
"""They would end a comment, and begin a field that is seen as a part of it."""


@dataclass(frozen=True, slots=True)
class Plain:
    """An unquoted number or boolean: the text as written, and its value for fields that are not strings.

    One that a reference to the environment was replaced by is `referenced`: it is a string in fields of any type.
    """

    text: str
    value: Any
    referenced: bool = False


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
        """Keys are strings, as in JSON."""
        if not isinstance(node, yaml.MappingNode):
            return super().construct_mapping(node, deep=deep)  # raises the right error
        self.flatten_mapping(node)
        return {key.value: self.construct_object(value, deep=deep) for key, value in node.value}

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Reports a value that its tag does not allow with its line."""
        try:
            return super().construct_object(node, deep=deep)
        except ValueError as error:
            raise yaml.constructor.ConstructorError(None, None, str(error), node.start_mark) from None

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


class NotYaml(ValueError):
    """The `problem` of a text that is not valid configuration YAML, its `line`, and the `field` if it is known."""

    def __init__(self, problem: str, line: int, field: str = "") -> None:
        self.problem, self.line, self.field = problem, line, field
        super().__init__(f"line {line}: {f'{field}: ' if field else ''}{problem}")


def read_yaml(text: str) -> Document:
    """Reads one YAML document. Numbers and booleans in it are `Plain`. Raises `NotYaml`."""
    if found := _HIDDEN_BREAK.search(text):
        line = text.count("\n", 0, found.start()) + 1
        code = f"U+{ord(found.group()):04X}"
        raise NotYaml(f"contains {code}, which YAML reads as the end of a line and editors do not; remove it", line)
    try:
        loader = _Loader(text)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise NotYaml(f"contains the control character U+{error.character:04X}", line) from None
    lines = _Lines()
    try:
        node = loader.get_single_node()
        if node is None:
            return Document(None, {})
        lines.note(node, (), frozenset())
        return Document(loader.construct_document(node), lines.found)
    except RecursionError:
        raise NotYaml("nested too deeply", loader.line + 1) from None
    except yaml.MarkedYAMLError as error:
        raise _not_yaml(error, lines.found) from None
    finally:
        loader.dispose()


def plain(text: str) -> Plain | str:
    """A text from the environment: `referenced` if it is a number or a boolean, else unchanged."""
    try:
        found = read_yaml(text).content
    except NotYaml:
        return text
    return replace(found, referenced=True) if isinstance(found, Plain) and found.text == text else text


def _not_yaml(error: yaml.MarkedYAMLError, lines: dict[tuple[str, ...], int]) -> NotYaml:
    problem, mark, begun = error.problem or "not YAML", error.problem_mark, error.context_mark
    if problem.startswith("found character '\\t'"):
        problem = "a tab cannot indent a line; use spaces"
    elif problem.startswith("but "):
        problem = f"{error.context}, {problem}"
    elif begun and mark and begun.line < mark.line:
        problem += f" ({error.context}, from line {begun.line + 1})"
    line = mark.line + 1 if mark else 1
    fields = [at for at, found in lines.items() if found == line]
    deepest: tuple[str, ...] = max(fields, key=len) if fields else ()
    return NotYaml(problem, line, ".".join(deepest))


def unquoted(text: str) -> str:
    """The string that an override gives to a string field: unquoted if it is quoted, else unchanged."""
    bare = text.strip()
    if bare[:1] not in ("'", '"') and "\n" not in bare:
        return bare
    try:
        node = yaml.compose(text, Loader=_Loader)
    except (yaml.YAMLError, ValueError, RecursionError):
        return bare
    return node.value if isinstance(node, yaml.ScalarNode) else bare


class Repeated(NamedTuple):
    """A key that is set twice in one mapping, in the lines `first` and `line`, counted from 1."""

    key: str
    first: int
    line: int


def repeated_key(root: yaml.Node) -> Repeated | None:
    """The first key of a composed document that is set twice, for readers that load YAML by themselves."""
    waiting, seen = [root], {id(root)}
    while waiting:
        node = waiting.pop()
        inner = node.value if isinstance(node, yaml.SequenceNode) else []
        if isinstance(node, yaml.MappingNode):
            lines: dict[str, int] = {}
            for key, value in node.value:
                name, line = str(key.value), key.start_mark.line + 1
                if isinstance(key, yaml.ScalarNode) and name in lines:
                    return Repeated(name, lines[name], line)
                lines[name] = line
                inner.append(value)
        fresh = [each for each in inner if id(each) not in seen]
        seen.update(map(id, fresh))
        waiting += fresh
    return None


class _Lines:
    """The line of each key and list item `found` in a document, which it checks meanwhile."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, ...], int] = {}
        self._visits = 0

    def note(self, node: yaml.Node, at: tuple[str, ...], around: frozenset[int]) -> None:
        """Notes what is in a node at that path. Raises `NotYaml` for a key that is set twice or is not a string, for
        a node that is `around` itself, and for a document that aliases make too large."""
        self._visits += 1
        line = self.found.get(at, node.start_mark.line + 1)
        if id(node) in around:
            raise NotYaml("contains itself through an alias", line, ".".join(at))
        if self._visits > _MOST:
            raise NotYaml(f"has more than {_MOST:,} values, with those of its aliases", line, ".".join(at))
        around |= {id(node)}
        if isinstance(node, yaml.MappingNode):
            self._note_mapping(node, at, around)
        elif isinstance(node, yaml.SequenceNode):
            for number, item in enumerate(node.value):
                self.found[*at, str(number)] = item.start_mark.line + 1
                self.note(item, (*at, str(number)), around)

    def _note_mapping(self, node: yaml.MappingNode, at: tuple[str, ...], around: frozenset[int]) -> None:
        own: dict[str, int] = {}
        merged: list[yaml.Node] = []
        for key, value in node.value:
            line, field = key.start_mark.line + 1, ".".join(at)
            if not isinstance(key, yaml.ScalarNode):
                raise NotYaml("a key must be a string", line, field)
            inner = (*at, key.value)
            if key.value in own:
                twice = f"is set twice, first in line {own[key.value]}; keep one of the two"
                raise NotYaml(twice, line, ".".join(inner))
            own[key.value] = line
            if key.tag == f"{_TAG}merge":
                merged += value.value if isinstance(value, yaml.SequenceNode) else [value]
                continue
            if inner not in self.found:  # else it is merged into a mapping that has this key
                self.found[inner] = line
                self.note(value, inner, around)
        for each in merged:
            self.note(each, at, around)
