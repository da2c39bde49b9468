"""Splits a reply into pieces that each fit within a platform's limit."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Literal, NamedTuple

from hermes_lab.gateway.boundaries import Fence, Rank, fences, ranks

_FREE = range(Rank.CHARACTER, Rank.PARAGRAPH + 1)
_WHOLE_WORDS = range(Rank.SPACE, Rank.PARAGRAPH + 1)
_FORCED = range(Rank.CLUSTER, Rank.CHARACTER)


class Limit(NamedTuple):
    """The most that a platform takes in one message: code points, UTF-16 units, or bytes of UTF-8."""

    most: int
    unit: Literal["characters", "utf16", "bytes"]

    def measure(self, text: str) -> int:
        """The length of `text` in this unit; a lone surrogate counts as the `?` that replaces it."""
        if self.unit == "characters":
            return len(text)
        if self.unit == "utf16":
            return len(text.encode("utf-16-le", "replace")) // 2
        return len(text.encode("utf-8", "replace"))


class Piece(NamedTuple):
    """A piece of a reply. `text` is a part of the reply; the fence lines around it are added where a fence is cut."""

    text: str
    opened: str = ""
    closed: str = ""

    @property
    def sent(self) -> str:
        """What is sent, within the limit."""
        return self.opened + self.text + self.closed

    @property
    def blank(self) -> bool:
        """Whether there is nothing to see; platforms refuse such a message. Only white space at an end of a reply, or
        much of it, or white space before a URL that fills a message, makes such a piece.
        """
        return not self.text or self.text.isspace()


def split(text: str, limit: Limit) -> list[Piece]:
    """Cuts `text` into pieces that fit within `limit`; `joined` gives the text back. No text gives no piece.

    A cut is best after a paragraph or beside a code block, then after a line, a sentence, a word, as long as the piece
    is at least half full. A grapheme cluster (see `boundaries`), a URL or a Markdown link is cut only if it alone is
    longer than a piece holds.

    A code fence that is cut is closed at the end of the piece, and opened again, with its info string, at the start of
    the next; one that the text leaves open is closed, too. A fence whose own lines take more than half of the limit is
    treated as text. Other Markdown, such as bold text, is not closed.

    A lone surrogate, which no platform can be sent, becomes `?`. Takes time in proportion to the text.

    Raises ValueError if `limit` is below 4, what the widest character takes.
    """
    if limit.most < 4:
        raise ValueError(f"the limit of a message must be at least 4 {limit.unit}, not {limit.most}")
    text = text.encode("utf-8", "replace").decode()
    return _Splitter(text, limit).pieces()


def joined(pieces: Iterable[Piece]) -> str:
    """The text that was split, without the fence lines that were added."""
    return "".join(piece.text for piece in pieces)


class _Splitter:
    def __init__(self, text: str, limit: Limit) -> None:
        self._text = text
        self._limit = limit
        self._fences = [fence for fence in fences(text) if self._keeps(fence)]
        self._starts = [fence.start for fence in self._fences]
        self._ranks = ranks(text, self._fences)
        # The length of the text before each position.
        self._before = _lengths(text, limit)

    def pieces(self) -> list[Piece]:
        pieces = []
        start = 0
        while start < len(self._text):
            opened = fence.opened if (fence := self._fence_at(start)) else ""
            stop = self._stop(start, self._limit.most - self._limit.measure(opened))
            pieces.append(Piece(self._text[start:stop], opened, self._closed(stop)))
            start = stop
        return pieces

    def _keeps(self, fence: Fence) -> bool:
        measure = self._limit.measure
        closing = max(measure(fence.closed) + 1, measure(self._text[fence.end : fence.after]))
        return 2 * (measure(self._text[fence.opening : fence.start]) + 1 + closing) <= self._limit.most

    def _fence_at(self, position: int) -> Fence | None:
        """The fence whose code goes on at `position`."""
        index = bisect_right(self._starts, position) - 1
        if index >= 0 and position < self._fences[index].end:
            return self._fences[index]
        return None

    def _closed(self, stop: int) -> str:
        if fence := self._fence_at(stop):
            return fence.closed if self._text[stop - 1] in "\r\n" else f"\n{fence.closed}"
        return ""

    def _stop(self, start: int, room: int) -> int:
        """Where to end the piece that starts at `start`, within `room`."""
        text, before = self._text, self._before
        if self._fits(start, len(text), room):
            return len(text)
        end = bisect_right(before, before[start] + room) - 1
        half = bisect_right(before, before[start] + room // 2) - 1
        # A cut before this would make a blank piece.
        visible = next((at + 1 for at in range(start, end) if not text[at].isspace()), end + 1)
        for first, last, wanted in (
            (max(half, visible), end, _WHOLE_WORDS),
            (visible, end, _FREE),
            (start + 1, visible - 1, _FREE),
            (start + 1, end, _FORCED),
        ):
            for rank in reversed(wanted):
                stop = self._ranks.rfind(rank, first, last + 1)
                while stop >= 0 and not self._fits(start, stop, room):
                    stop = self._ranks.rfind(rank, first, stop)
                if stop >= 0:
                    return stop
        raise AssertionError(f"no cut of the text from {start} on fits within {self._limit}")

    def _fits(self, start: int, stop: int, room: int) -> bool:
        length = self._before[stop] - self._before[start]
        return length <= room and length + self._limit.measure(self._closed(stop)) <= room


def _lengths(text: str, limit: Limit) -> Sequence[int]:
    if limit.unit == "characters":
        return range(len(text) + 1)
    if limit.unit == "utf16":
        return list(accumulate((2 if character > "\uffff" else 1 for character in text), initial=0))
    widths = (1 + (character > "\x7f") + (character > "\u07ff") + (character > "\uffff") for character in text)
    return list(accumulate(widths, initial=0))
