"""End-of-turn tokens. Some servers leave them in the text, even after a call."""

import re

from hermes_lab.models.reasoning import END_TOKENS

END = rf"{END_TOKENS}|<\|(?:eom|call|end_of_turn)\|>|</longcat_s>"
"""One end-of-turn token. Part of a regular expression."""
_ENDS = re.compile(rf"(?:\s*+(?:{END}))++")
_LAST = re.compile(rf"(?:{END})\Z")
_LONGEST = 40


def skip_ends(text: str, at: int) -> int:
    """The index after the end tokens at `at`, or `at` itself."""
    ends = _ENDS.match(text, at)
    return ends.end() if ends else at


def without_ends(text: str) -> str:
    """`text` without trailing end tokens."""
    kept = end = len(text)
    while True:
        while end and text[end - 1].isspace():
            end -= 1
        last = _LAST.search(text[max(end - _LONGEST, 0) : end])
        if not last:
            return text[:kept]
        kept = end = end - len(last.group())
