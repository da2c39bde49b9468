"""Suggests a known name for an unknown one, in error messages to the user."""

import difflib
from collections.abc import Iterable

_LIKE = 0.6
"""Minimum similarity of a suggestion, as in `difflib`."""


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "", *, most: int = 1, like: float = _LIKE) -> str:
    """What to append to an error about an unknown `name`: `; did you mean NEAR?` with up to `most` names that are
    similar, or `; OTHERWISE`. "" if there is neither."""
    near = difflib.get_close_matches(name, list(known), most, like)
    remedy = f"did you mean {' or '.join(near)}?" if near else otherwise
    return f"; {remedy}" if remedy else ""
