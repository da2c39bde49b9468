"""Splits a SKILL.md in YAML frontmatter and Markdown, and reads the YAML: strictly, or as published skills need.

Published skills are written for other programs. The client guide of the Agent Skills standard asks to load what can be
read, with a warning: a byte order mark, blanks around `---`, and values that are no YAML, such as
`description: Use this when: ...` or `argument-hint: [file] [format]`, which are read as text.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import yaml

from hermes_lab.config.yaml_files import Repeated, repeated_key
from hermes_lab.errors import ToolError

_PARTS = re.compile(r"\ufeff?\s*---[ \t]*\n(?P<head>(?:.*?\n)??)---[ \t]*(?:\n(?P<body>.*))?", re.DOTALL)
_ENTRY = re.compile(r"(?P<key>[\w.-]+)[ \t]*:(?:[ \t]+(?P<value>.*))?")
_MAX_DEPTH = 20
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times faster


class Note(NamedTuple):
    """A remark on a line of a SKILL.md, counted from 1."""

    line: int
    text: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}"


class Parts(NamedTuple):
    """The YAML between the two `---` lines, which starts on `line` of the file, and the Markdown after it."""

    yaml: str
    body: str
    line: int


class Head(NamedTuple):
    """The fields of a frontmatter; `notes` say which were no YAML and were read as text."""

    fields: Mapping[str, Any]
    notes: tuple[Note, ...] = ()


def split(text: str) -> Parts:
    """Splits a SKILL.md. Raises `ToolError` if it has no frontmatter."""
    match = _PARTS.fullmatch(text.replace("\r\n", "\n"))
    if match is None:
        begun = text.lstrip("\ufeff \t\r\n").startswith("---")
        problem = "the frontmatter has no closing ---" if begun else "must begin with frontmatter"
        raise ToolError(f"SKILL.md: {problem} (--- name, description ---)")
    line = match.string.count("\n", 0, match.start("head")) + 1
    return Parts(match["head"].removesuffix("\n"), match["body"] or "", line)


@lru_cache(maxsize=4096)
def strict(head: str, line: int = 2) -> Mapping[str, Any]:
    """Parses the YAML of a frontmatter that starts on this line of the file. Raises `ToolError`."""
    return _strict(head, line)[0]


def _strict(head: str, line: int) -> tuple[Mapping[str, Any], Repeated | None]:
    try:
        return _load(head)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ToolError(f"SKILL.md: {_mistake(error, line)}") from None


@lru_cache(maxsize=4096)
def lenient(head: str, line: int = 2) -> Head:
    """Parses the frontmatter; a top-level field that is no YAML is read as text. Raises `ToolError` if that gives no
    description either."""
    try:
        fields, twice = _strict(head, line)
    except ToolError:
        found = _entries(head, line)
        if "description" not in found.fields:
            raise
        return found
    if twice is None:
        return Head(fields)
    at, first = (number + line - 1 for number in (twice.line, twice.first))
    return Head(fields, (Note(at, f"{twice.key}: is set twice, first in line {first}; the last one counts"),))


def _load(text: str) -> tuple[dict[str, Any], Repeated | None]:
    """The fields, and the first key that is set twice, of which the last value counts."""
    depth = 0
    for event in yaml.parse(text, _LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        # Aliases can expand without bound, and deep nesting can overflow the stack and crash the process.
        if depth > _MAX_DEPTH or isinstance(event, yaml.AliasEvent):
            raise ToolError("SKILL.md: the frontmatter has YAML aliases, or is nested too deeply")
    loader = _LOADER(text)
    try:
        node = loader.get_single_node()
        twice = repeated_key(node) if node else None
        head = loader.construct_document(node) if node else None
    finally:
        loader.dispose()
    if not isinstance(head, dict):
        raise ToolError("SKILL.md: the frontmatter is not a mapping")
    return head, twice


def _entries(head: str, line: int) -> Head:
    """Reads each top-level field by itself."""
    blocks: list[tuple[int, str, list[str]]] = []
    for number, text in enumerate(head.split("\n"), line):
        if match := _ENTRY.fullmatch(text.rstrip()):
            blocks.append((number, match["key"], [text]))
        elif blocks:
            blocks[-1][2].append(text)
    fields: dict[str, Any] = {}
    notes = []
    for number, key, lines in blocks:
        try:
            fields |= _load("\n".join(lines))[0]
        except ValueError:  # YAML, but a value that does not exist
            fields[key] = _plain(lines)
            notes.append(Note(number, f"{key}: not a valid date or number, read as text"))
        except (yaml.YAMLError, RecursionError, ToolError):
            fields[key] = _plain(lines)
            notes.append(Note(number, f"{key}: not valid YAML, read as text; text with ': ' in it needs quotes"))
    return Head(fields, tuple(notes))


def _plain(lines: list[str]) -> str:
    match = _ENTRY.fullmatch(lines[0].rstrip())
    first = (match["value"] or "").strip() if match else ""
    words = [] if re.fullmatch(r"[|>][+-]?\d?", first) else [first]
    text = " ".join(" ".join([*words, *lines[1:]]).split())
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"
    return text[1:-1] if quoted else text


def _mistake(error: Exception, first: int) -> str:
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None) or ""
    where = f"line {mark.line + first}: " if mark else ""
    hint = "; text with ': ' in it needs quotes" if problem.startswith("mapping values") else ""
    return f"{where}the frontmatter is not valid YAML{f': {problem}' if problem else ''}{hint}"
