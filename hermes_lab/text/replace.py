"""Replacement of a passage that a model quoted, perhaps not quite as it stands.

An exact match goes first. Then looser readings of the quote are tried, the strictest first, and the first one that
finds anything decides; where it finds several places, that is an error and never a guess. What a loose reading replaces
are only the lines in which the old and the new passage differ: what they have in common stays as the file has it.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import accumulate, islice
from typing import NamedTuple

from hermes_lab.errors import ToolError
from hermes_lab.text.diff import common_head

_MOST_NAMED = 10
_LOOSE_CHARS = 1_000_000
_ALIKE = 0.85
_MOST_COMPARED = 500
"""Characters of a line that is compared with a similar one: the time grows with the square, or faster."""
_SIMILAR = "similar lines"

_TYPOGRAPHY = str.maketrans("‘’‚‛“”„‟‐‑‒–—―−\u00a0\u202f", "''''\"\"\"\"-------  ")
_ESCAPE = re.compile(r"\\([ntr\"'\\])")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r"}


class Replaced(NamedTuple):
    """A new text, how many passages were replaced, and the reading that found them: empty where they match exactly."""

    text: str
    replacements: int
    reading: str


class _Passage(NamedTuple):
    """text[start:end], to be replaced by `new`."""

    start: int
    end: int
    new: str


class _View(NamedTuple):
    """A reading of what the model wrote; `fold` is applied to it and to the text, and changes no position."""

    name: str
    old: str
    new: str
    fold: Callable[[str], str] = str


def replace(text: str, old: str, new: str, *, everywhere: bool = False) -> Replaced:
    """Replaces the one passage `old` of `text`, or with `everywhere` all of them.

    Raises `ToolError` where it is not found, or is found in several places and not all are meant.
    """
    if not old:
        raise ToolError("old_string is empty")
    if everywhere and old in text:
        return Replaced(text.replace(old, new), text.count(old), "")
    for reading, found in _readings(text, old, new):
        passages = list(found if everywhere else islice(found, _MOST_NAMED + 1))
        if len(passages) > 1 and not everywhere:
            raise ToolError(_ambiguous(text, passages, reading))
        if passages:
            passages = _apart(passages)
            return Replaced(_with(text, passages), len(passages), reading)
    raise ToolError("old_string not found, and nothing similar either; read the file again")


def _readings(text: str, old: str, new: str) -> Iterator[tuple[str, Iterator[_Passage]]]:
    """From the strictest to the loosest: what it is called, and what it finds."""
    yield "", _quoted(text, _View("", old, new))
    if not old.strip() or len(text) > _LOOSE_CHARS:
        return
    lines = _Lines(text)
    for view in _views(text, old, new):
        named = f"{view.name} and " if view.name else ""
        if view.name:
            yield view.name, _quoted(text, view)
        yield f"{named}trailing whitespace", lines.passages(view, str.rstrip)
        yield f"{named}indentation", lines.passages(view, str.strip)
        yield f"{named}whitespace", lines.passages(view, _spaced)
        yield f"{named}whitespace", _words(text, view)
    yield _SIMILAR, lines.similar(_View("", old, new))


def _views(text: str, old: str, new: str) -> Iterator[_View]:
    ends = "\r\n" if "\r\n" in text else "\n"
    ended, ended_new = (ends.join(part.replace("\r\n", "\n").split("\n")) for part in (old, new))
    yield _View("", old, new) if ended == old else _View("line endings", ended, ended_new)
    yield _View("quotes and dashes", old, new, _plain)
    if _ESCAPE.search(old):
        yield _View("escapes", _unescaped(old), _unescaped(new))


def _quoted(text: str, view: _View) -> Iterator[_Passage]:
    """Where the view's old text stands, overlaps included. What it begins and ends with in common with the new one
    stays as the text has it."""
    seen, old = view.fold(text), view.fold(view.old)
    head = common_head(view.old, view.new)
    tail = common_head(view.old[head:][::-1], view.new[head:][::-1])
    changed = view.new[head : len(view.new) - tail]
    at = seen.find(old)
    while at >= 0:
        end = at + len(old)
        yield _Passage(at, end, text[at : at + head] + changed + text[end - tail : end])
        at = seen.find(old, at + 1)


def _words(text: str, view: _View) -> Iterator[_Passage]:
    """Where the words of a single line stand, with any blanks between them."""
    if "\n" not in view.old:
        pattern = re.sub(r"(?:\\?\s)+", r"[ \\t]+", re.escape(view.fold(view.old)))
        for match in re.finditer(pattern, view.fold(text)):
            yield _Passage(match.start(), match.end(), view.new)


class _Lines:
    """A text as lines, in which passages of whole lines are found."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._lines = text.removesuffix("\n").split("\n")
        self._starts = [0, *accumulate(len(line) + 1 for line in self._lines)]

    def passages(self, view: _View, normal: Callable[[str], str]) -> Iterator[_Passage]:
        """Where the lines of the view's old text stand, if only their normal forms are compared."""
        folded = [normal(view.fold(line)) for line in self._lines]
        old = [normal(view.fold(line)) for line in _split(view).old]
        # Between line ends, so that a search of the joined lines (linear, unlike one of windows) finds whole lines.
        starts = [0, *accumulate(len(line) + 1 for line in folded)]
        haystack, needle = "\n".join(["", *folded, ""]), "\n".join(["", *old, ""])
        at = haystack.find(needle)
        while at >= 0:
            yield from self._passage(bisect_left(starts, at), view)
            at = haystack.find(needle, at + 1)

    def similar(self, view: _View) -> Iterator[_Passage]:
        """Where the first and last line of the old text stand, and every line between them is nearly as quoted."""
        old = [line.strip() for line in _split(view).old]
        count = len(old)
        if count < 3:
            return
        lines = [line.strip() for line in self._lines]
        for first in range(len(lines) - count + 1):
            if (lines[first], lines[first + count - 1]) == (old[0], old[-1]) and all(
                map(_alike, lines[first : first + count], old)
            ):
                yield from self._passage(first, view)

    def _passage(self, first: int, view: _View) -> Iterator[_Passage]:
        """The lines from `first` on, with the change from old to new; none where their indentation contradicts it."""
        old, new, joins = _split(view)
        lines = self._lines[first : first + len(old)]
        indents = _indents(old, lines)
        if indents is None:
            return
        end = "\r" if lines[0].endswith("\r") else ""
        changed: list[str] = []
        for kind, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
            inserted = (_indented(line, indents) + end for line in new[c:d])
            changed += lines[a:b] if kind == "equal" else inserted
        if changed and (joins or not lines[-1].endswith("\r")):
            changed[-1] = changed[-1].removesuffix("\r")
        start, last = self._starts[first], first + len(old) - 1
        stop = self._starts[last] + len(self._lines[last])
        stop += joins and self._text[stop : stop + 1] == "\n"
        yield _Passage(start, stop, "\n".join(changed))


class _Split(NamedTuple):
    """Old and new as lines. `joins`: the old text takes its last line end with it."""

    old: list[str]
    new: list[str]
    joins: bool


def _split(view: _View) -> _Split:
    old, new = view.old.replace("\r\n", "\n"), view.new.replace("\r\n", "\n")
    joins = old.endswith("\n") and not new.endswith("\n")
    if old.endswith("\n"):
        old, new = old.removesuffix("\n"), new.removesuffix("\n")
    return _Split(old.split("\n"), [] if joins and not new else new.split("\n"), joins)


def _indents(old: Sequence[str], lines: Sequence[str]) -> dict[str, str] | None:
    """The indentation in the file for each that was quoted; None where one stands for two."""
    indents: dict[str, str] = {}
    for quoted, line in zip(old, lines, strict=True):
        if quoted.strip() and indents.setdefault(_indent(quoted), _indent(line)) != _indent(line):
            return None
    return indents


def _indented(line: str, indents: dict[str, str]) -> str:
    """A new line with the file's indentation: that of its own, or of the deepest quoted one that it continues."""
    if not line.strip():
        return line
    indent = _indent(line)
    known = max((quoted for quoted in indents if indent.startswith(quoted)), key=len, default=None)
    if known is None:
        return indents[min(indents, key=len)] + line[len(indent) :]
    return indents[known] + line[len(known) :]


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _alike(line: str, quoted: str) -> bool:
    """Whether two lines are equal, or short and nearly so: what matches, as a part of both."""
    if line == quoted:
        return True
    both = len(line) + len(quoted)
    if max(len(line), len(quoted)) > _MOST_COMPARED or 2 * min(len(line), len(quoted)) < _ALIKE * both:
        return False
    head = common_head(line, quoted)
    tail = common_head(line[head:][::-1], quoted[head:][::-1])
    matcher = SequenceMatcher(None, line[head : len(line) - tail], quoted[head : len(quoted) - tail], autojunk=False)
    same = head + tail + sum(block.size for block in matcher.get_matching_blocks())
    return 2 * same >= _ALIKE * both


def _spaced(line: str) -> str:
    return " ".join(line.split())


def _plain(text: str) -> str:
    return text.translate(_TYPOGRAPHY)


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[1]), text)


def _apart(passages: Sequence[_Passage]) -> list[_Passage]:
    """Those that overlap none before them."""
    kept: list[_Passage] = []
    for passage in passages:
        if not kept or passage.start >= kept[-1].end:
            kept.append(passage)
    return kept


def _with(text: str, passages: Sequence[_Passage]) -> str:
    parts, at = [], 0
    for start, end, new in passages:
        parts += [text[at:start], new]
        at = end
    return "".join([*parts, text[at:]])


def _ambiguous(text: str, passages: Sequence[_Passage], reading: str) -> str:
    lines = list(dict.fromkeys(text.count("\n", 0, passage.start) + 1 for passage in passages[:_MOST_NAMED]))
    many = len(passages) > _MOST_NAMED
    times = f"more than {_MOST_NAMED} times" if many else f"{len(passages)} times"
    where = f"line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines))}{' and more' if many else ''}"
    loose = "as similar lines" if reading == _SIMILAR else f"ignoring differences in {reading}"
    how = f" ({loose})" if reading else ""
    return f"old_string occurs {times}{how}: {where}; quote more surrounding lines, or set replace_all"
