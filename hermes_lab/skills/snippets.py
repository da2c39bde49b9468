"""Finds the commands in a skill that are run when a person loads it, and the places for that person's arguments.

The syntax is that of Claude Code: ``!`command` `` at the start of a line or after a blank, a fenced block that opens
with ```` ```! ````, `$ARGUMENTS`, `$ARGUMENTS[0]` and `$1`.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

_INLINE = re.compile(r"(?<![^\s(>|])!`(?P<command>[^`\n]+)`")
_FENCE = re.compile(r"^[ \t]*(?P<mark>```+|~~~+)(?P<info>[^\n`]*)$", re.MULTILINE)


class Snippet(NamedTuple):
    """A command, the part of the text that its output replaces, and the line of the text, from 1."""

    command: str
    start: int
    end: int
    line: int


def snippets(text: str) -> list[Snippet]:
    """Returns the commands of a SKILL.md in order. What other code blocks show is no command."""
    found = []
    at = 0
    for start, end, info in [*code_blocks(text), (len(text), len(text), "")]:
        for match in _INLINE.finditer(text, at, start):
            found.append(_snippet(text, match["command"], match.start(), match.end()))
        if info == "!":
            inside = text[start:end].split("\n")[1:-1]
            found.append(_snippet(text, "\n".join(inside), start, end))
        at = end
    return found


def code_blocks(text: str) -> Iterator[tuple[int, int, str]]:
    """Yields where fenced code blocks start and end, with what stands behind their opening mark."""
    opened: re.Match[str] | None = None
    for match in _FENCE.finditer(text):
        if opened is None:
            opened = match
        elif match["mark"].startswith(opened["mark"]) and not match["info"].strip():
            yield opened.start(), match.end(), opened["info"].strip()
            opened = None
    if opened is not None:
        yield opened.start(), len(text), ""


def _snippet(text: str, command: str, start: int, end: int) -> Snippet:
    return Snippet(command.strip(), start, end, text.count("\n", 0, start) + 1)
