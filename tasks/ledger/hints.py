"""What the owner of a house says of a wrong total: written by the suite, read by the scripted learner."""

import re
from typing import NamedTuple

from tasks.ledger.rules import Rule
from tasks.worlds import Draws

FRAMES = (
    "Rejected: {clause} ({flags}).",
    "Rejected: at the {desk} desk, {clause} ({flags}).",
    "Rejected, use {flags} here: {clause}.",
    "Rejected. The {desk} desk's way: {clause}. Use {flags}.",
    "Rejected: not how the {desk} desk counts. There, {clause} ({flags}).",
)
_PATTERNS = tuple(
    re.compile(
        re.escape(frame)
        .replace(re.escape("{clause}"), "(?P<clause>[^-]+?)")
        .replace(re.escape("{flags}"), r"(?P<flags>--[\w-]+ [\w=:]+)")
        .replace(re.escape("{desk}"), r"\w+")
    )
    for frame in FRAMES
)


class Hint(NamedTuple):
    """A rule as an owner's rejection tells it."""

    clause: str
    flags: str


def write_hint(desk: str, rule: Rule, draws: Draws) -> str:
    """A rejection that names the convention and its flags, and never a number of the answer."""
    return draws.choice(FRAMES).format(clause=rule.clause(draws), flags=rule.flags, desk=desk)


def read_hint(text: str) -> Hint | None:
    """What `write_hint` put into its text; None for any other text."""
    # The frames with more text around the clause come last, and a shorter one would take that text for the
    # clause.
    for pattern in reversed(_PATTERNS):
        if match := pattern.fullmatch(text):
            return Hint(match["clause"], match["flags"])
    return None
