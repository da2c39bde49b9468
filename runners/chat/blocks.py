"""Cuts a reply into blocks of Markdown while it comes, so that each can be shown once it is whole."""

import re
from collections.abc import Iterator

_FENCE = re.compile(r"[ \t]*(?P<mark>```+|~~~+)")


class Blocks:
    """The blocks of one reply: paragraphs, lists and code end at a blank line outside of a fence."""

    def __init__(self) -> None:
        self._block: list[str] = []
        self._line = ""
        self._fence = ""

    def add(self, text: str) -> Iterator[str]:
        """Adds text; yields the blocks that are whole now."""
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            self._block.append(line)
            if match := _FENCE.match(line):
                mark = match["mark"]
                if not self._fence:
                    self._fence = mark
                elif mark.startswith(self._fence):
                    self._fence = ""
            if not line.strip() and not self._fence:
                yield self._take()

    def rest(self) -> str:
        """What is left at the end of the reply."""
        self._block.append(self._line)
        self._line, self._fence = "", ""
        return self._take()

    def tail(self, lines: int) -> str:
        """The last lines of the unfinished block."""
        return "\n".join([*self._block, self._line][-lines:]).strip("\n")

    def _take(self) -> str:
        block, self._block = "\n".join(self._block), []
        return block
