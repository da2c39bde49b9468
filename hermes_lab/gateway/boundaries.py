"""Where a Markdown text may be cut: ranks every position, and finds the code fences.

Grapheme clusters are found by a small rule of our own. A character stays with the one before it if it is

- a combining mark (Mn, Mc, Me: variation selectors and keycaps, too), a zero-width joiner or non-joiner, a skin
  tone, a tag, a Hangul vowel or final, Thai or Lao AM, or a half-width Katakana sound mark, but not after a control
  character or a line end;
- not ASCII, and follows a zero-width joiner;
- the second regional indicator of a flag, or the LF of CR LF.

Not covered: Prepend characters, and conjuncts that a virama alone joins.
"""

import re
import unicodedata
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple


class Rank(IntEnum):
    """How good a cut is at a position. A cut of a lower rank is made only where no higher one fits."""

    NEVER = 0  # at the edge of a fence, where a cut would leave an empty code block
    CLUSTER = 1  # within a grapheme cluster
    URL = 2
    LINK = 3  # within a Markdown link, outside its URL
    FENCE = 4  # where a half line would read as a fence
    CHARACTER = 5  # within a word
    SPACE = 6  # before white space
    WORD = 7  # after white space
    SENTENCE = 8
    LINE = 9
    PARAGRAPH = 10  # after an empty line, before and after a code block


class Fence(NamedTuple):
    """A fenced code block of a text; the code is `text[start:end]`."""

    opening: int  # where the line that opens it starts
    start: int
    end: int  # where the line that closes it starts; beyond the text if none does
    after: int  # where the fence that closes it ends, without trailing white space; beyond the text if none does
    opened: str  # the line that opens it once more, with its newline
    closed: str  # the line that closes it, without a newline


_EOL = r"(?>\r\n|\n|\r)"
_LINES = re.compile(rf"[^\r\n]*+(?:{_EOL}|\Z)")
# Quotation marks and list markers may stand before a fence.
_OPENING = re.compile(
    r"(?P<prefix>(?:[ \t]*+(?:>|(?:[-*+]|\d{1,9}[.)])(?=[ \t])))*+[ \t]*+)"
    r"(?P<run>`{3,}+(?![^\r\n]*`)|~{3,}+)(?P<info>[^\r\n]*)"
)
_CLOSING = re.compile(r"(?P<fence>[ \t>]*+(?P<run>`{3,}+|~{3,}+))[ \t]*+(?=[\r\n]|\Z)")
# A fence, or what would be one if the text before it on its line were cut off.
_RUN = re.compile(r"(?<![ \t>*+\-0-9.)])[ \t>*+\-0-9.)]*+(?:`{3,}+|~{3,}+)")
_REST = re.compile(r"[^\r\n]*+")

_BEFORE_SPACE = re.compile(r"(?<!\s)\s")
_AFTER_SPACE = re.compile(r"(?<!\s)\s++")
_SENTENCE = re.compile(r"""[.!?…]["'”’)\]]*+\s++|[。！？]++[”’」』）]*+""")
_LINE = re.compile(_EOL)
_PARAGRAPH = re.compile(rf"{_EOL}(?:[ \t]*+{_EOL})++")

# Each pattern reads a character a bounded number of times, whatever the text.
_LINK = re.compile(
    r"!?\[(?:[^\[\]\r\n]|\[[^\[\]\r\n]*+\])*+\]"
    r"\((?:<[^<>\r\n]*+>|(?:[^\s()<>]|\([^\s()<>]*+\))*+)"
    r"""(?:[ \t]++(?:"[^"\r\n]*+"|'[^'\r\n]*+'))?+[ \t]*+\)"""
)
# Brackets belong to a URL in pairs, unless a link starts there.
_URL = re.compile(
    r"(?:(?<![A-Za-z])(?:[A-Za-z][A-Za-z0-9+.\-]{1,20}://|mailto:)|(?<![A-Za-z0-9])www\.)"
    r"""(?:(?!!\[)[^\s<>()\[\]"`]|\([^\s<>()\[\]"`]*+\)|\[[^\s<>()\[\]"`]*+\](?!\())++"""
)
_JOINABLE = re.compile(r"\r\n|[^\x00-\x7f]")


def fences(text: str) -> list[Fence]:
    """The fenced code blocks of a text, in order.

    A fence is a line of three or more backticks or tildes, at any indent, after quotation marks or list markers if any;
    an info string may follow. The end of a list or of a quotation does not close one.
    """
    found: list[Fence] = []
    opening: re.Match[str] | None = None
    start = 0
    for line in _LINES.finditer(text):
        if opening is None:
            if opening := _OPENING.match(text, line.start(), line.end()):
                start = line.end()
        elif (closing := _CLOSING.match(text, line.start(), line.end())) and closing["run"].startswith(opening["run"]):
            found.append(_fence(opening, start, closing.start(), closing.end("fence")))
            opening = None
    if opening:
        found.append(_fence(opening, start, len(text) + 1, len(text) + 1))
    return found


def _fence(opening: re.Match[str], start: int, end: int, after: int) -> Fence:
    indent = re.sub(r"[^\s>]", " ", opening["prefix"])  # a list marker would start a new item
    closed = indent + opening["run"]
    return Fence(opening.start(), start, end, after, f"{closed}{opening['info'].rstrip()}\n", closed)


def ranks(text: str, kept: list[Fence]) -> bytearray:
    """The rank of a cut before each position of `text`; `kept` are the fences that are closed and opened again."""
    found = bytearray([Rank.CHARACTER]) * (len(text) + 1)
    for match in _BEFORE_SPACE.finditer(text):
        found[match.start()] = Rank.SPACE
    for rank, pattern in (
        (Rank.WORD, _AFTER_SPACE),
        (Rank.SENTENCE, _SENTENCE),
        (Rank.LINE, _LINE),
        (Rank.PARAGRAPH, _PARAGRAPH),
    ):
        for match in pattern.finditer(text):
            found[match.end()] = rank
    for fence in kept:
        found[fence.opening] = Rank.PARAGRAPH
        # An empty line in code is no better than any line: rather cut before or after the code.
        found[fence.start : fence.end] = found[fence.start : fence.end].replace(
            bytes([Rank.PARAGRAPH]), bytes([Rank.LINE])
        )
        if fence.after <= len(text) and (rest := _LINES.match(text, fence.after)):
            found[rest.end()] = Rank.PARAGRAPH
    for start, end in _half_fences(text):
        _lower(found, start, end, Rank.FENCE)
    for match in _LINK.finditer(text):
        _lower(found, match.start() + 1, match.end(), Rank.LINK)
    for match in _URL.finditer(text):
        _lower(found, match.start() + 1, match.end(), Rank.URL)
    for position in _joints(text):
        found[position] = Rank.CLUSTER
    for fence in kept:
        _lower(found, fence.opening + 1, min(fence.start + 1, len(text)), Rank.NEVER)
        _lower(found, fence.end, min(fence.after, len(text)), Rank.NEVER)
    return found


def _lower(ranks: bytearray, start: int, end: int, rank: Rank) -> None:
    ranks[start:end] = bytes([rank]) * (end - start)


def _half_fences(text: str) -> Iterator[tuple[int, int]]:
    done = 0
    for match in _RUN.finditer(text):
        start, end = match.span()
        if start < done:
            continue
        if start and text[start - 1] not in "\r\n":
            yield start, end
        elif rest := _REST.match(text, end):
            done = rest.end()
            yield start + 1, done


def _joints(text: str) -> Iterator[int]:
    """The positions within grapheme clusters."""
    flag = -1  # where the first half of a flag stands
    for match in _JOINABLE.finditer(text):
        position = match.start()
        if match.group() == "\r\n":
            yield position + 1
            continue
        character = match.group()
        if "\U0001f1e6" <= character <= "\U0001f1ff":
            if position and flag == position - 1:
                yield position
                continue
            flag = position
        if not position:
            continue
        before = text[position - 1]
        if before == "\u200d" or (_extends(character) and unicodedata.category(before) not in ("Cc", "Zl", "Zp")):
            yield position


def _extends(character: str) -> bool:
    return (
        unicodedata.category(character) in ("Mn", "Mc", "Me")
        or character in "\u200c\u200d\u0e33\u0eb3\uff9e\uff9f"
        or "\U0001f3fb" <= character <= "\U0001f3ff"
        or "\U000e0020" <= character <= "\U000e007f"
        or "\u1160" <= character <= "\u11ff"
        or "\ud7b0" <= character <= "\ud7ff"
    )
