"""Detects loads: tool results that contain a skill's own text."""

import msgspec

from hermes_lab.types import ToolResult

_VIEW = "skill_view"


class _Shown(msgspec.Struct):
    name: str = ""
    path: str = ""


def shown_skill(result: ToolResult) -> str:
    """Returns the skill whose own text (not one of its other files) is in the result; "" if there is none.

    This reads the result, not the call, since `skill_view` resolves misspelled names and falls back from unknown paths.
    """
    if result.name != _VIEW or not result.ok:
        return ""
    try:
        shown = msgspec.json.decode(result.content.encode(), type=_Shown)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return ""
    return "" if shown.path else shown.name
