"""Parses the headings, tables and lines of Markdown reports. Ignores everything else."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

Row = tuple[str, ...]
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_RULER = re.compile(r":?-+:?")
_STRONG = re.compile(r"(?<!\\)\*\*(?!\s)([^*]++)(?<!\s)\*\*|(?<![\w\\])__(?!\s)([^_]++)(?<!\s)__(?!\w)")
_BLANK = "&nbsp;"
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")


@dataclass
class Part:
    """A heading with its content. The part before the first heading has level 0."""

    level: int
    title: str
    lines: list[str] = field(default_factory=list)
    tables: list[list[Row]] = field(default_factory=list)
    """Rows of each table, without the delimiter row."""


def read_parts(text: str) -> list[Part]:
    """The parts of a report. Fenced blocks and comments are skipped."""
    parts = [Part(0, "")]
    fence, in_table = "", False
    for line in _COMMENT.sub("", text).splitlines():
        line = line.strip()
        mark = line[:3] if line.startswith(("```", "~~~")) else ""
        if fence or mark:
            fence = "" if fence and mark == fence else fence or mark
            in_table = False
            continue
        if heading := _heading(line):
            parts.append(heading)
        elif line.startswith("|"):
            if not in_table:
                parts[-1].tables.append([])
            cells = _cells(line)
            if not all(map(_RULER.fullmatch, cells)):
                parts[-1].tables[-1].append(cells)
        elif line:
            parts[-1].lines.append(_plain(line))
        in_table = line.startswith("|")
    return parts


def share_right(found: Sequence[Row], right: Sequence[Row]) -> tuple[float, str]:
    """The share of rows in the right position, in 0..1, and the same in words."""
    same = sum(a == b for a, b in zip(found, right, strict=False))
    most = max(len(found), len(right))
    return (same / most if most else 1.0), f"{same} of {most} rows are right"


def _heading(line: str) -> Part | None:
    """A new part, if the line is a heading. Headings may end with hashes."""
    level = len(line) - len(line.lstrip("#"))
    title = line[level:]
    if not 1 <= level <= 6 or title[:1] not in (" ", "\t"):
        return None
    bare = title.rstrip("#")
    return Part(level, _plain(bare if bare[-1:] in (" ", "\t") else title))


def _cells(line: str) -> Row:
    inner = line.removeprefix("|").removesuffix("|")
    return tuple(_plain(cell) for cell in re.split(r"(?<!\\)\|", inner))


def _plain(text: str) -> str:
    text = text.strip()
    return "" if text == _BLANK else _ESCAPED.sub(r"\1", _STRONG.sub(r"\1\2", text))
