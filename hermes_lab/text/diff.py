"""A small unified diff."""

from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import takewhile
from operator import eq

_CONTEXT = 2
_MOST_LINES = 60
_MOST_COMPARED = 2_000


def small_diff(before: str, after: str) -> str:
    """The hunks of a unified diff, without file names; what is long is cut.

    Only what lies between the common head and tail is compared, so a small change in a large file is cheap.
    """
    if before.endswith("\n") and after.endswith("\n"):
        before, after = before[:-1], after[:-1]
    old, new = before.split("\n"), after.split("\n")
    head = max(common_head(old, new) - _CONTEXT, 0)
    tail = max(common_head(old[head:][::-1], new[head:][::-1]) - _CONTEXT, 0)
    old, new = old[head : len(old) - tail], new[head : len(new) - tail]
    cut = max(len(old), len(new)) > _MOST_COMPARED
    lines = _hunks(old[:_MOST_COMPARED], new[:_MOST_COMPARED], head)
    if cut or len(lines) > _MOST_LINES:
        lines = [*lines[:_MOST_LINES], "[... more lines changed ...]"]
    return "\n".join(lines)


def common_head(a: Sequence[str], b: Sequence[str]) -> int:
    """How many elements two sequences begin with in common."""
    return sum(takewhile(bool, map(eq, a, b)))


def _hunks(old: Sequence[str], new: Sequence[str], head: int) -> list[str]:
    lines = []
    for group in SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(_CONTEXT):
        (_, a, _, c, _), (_, _, b, _, d) = group[0], group[-1]
        lines.append(f"@@ -{head + a + 1},{b - a} +{head + c + 1},{d - c} @@")
        for kind, i, j, k, m in group:
            if kind == "equal":
                lines += [f" {line}" for line in old[i:j]]
            else:
                lines += [f"-{line}" for line in old[i:j]] + [f"+{line}" for line in new[k:m]]
    return lines
