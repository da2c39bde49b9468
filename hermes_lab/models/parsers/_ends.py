"""The tokens with which models end a turn. Some servers leave them in the text, behind a call too."""

import re

from hermes_lab.models.reasoning import END_TOKENS

END = rf"{END_TOKENS}|<\|(?:eom|call|end_of_turn)\|>|</longcat_s>"
"""One of them. A part of a regular expression."""
_ENDS = re.compile(rf"(?:\s*+(?:{END}))++")
_LAST = re.compile(rf"(?:{END})\Z")
_LONGEST = 40


def skip_ends(text: str, at: int) -> int:
    """The index behind the end tokens that stand at `at`; `at` where there is none."""
    ends = _ENDS.match(text, at)
    return ends.end() if ends else at


def without_ends(text: str) -> str:
    """`text` without the end tokens at its end."""
    kept = end = len(text)
    while True:
        while end and text[end - 1].isspace():
            end -= 1
        last = _LAST.search(text[max(end - _LONGEST, 0) : end])
        if not last:
            return text[:kept]
        kept = end = end - len(last.group())
