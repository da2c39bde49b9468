"""Which answers hold a skill's own text: such a skill is loaded."""

import msgspec

from hermes_lab.types import ToolResult

_VIEW = "skill_view"


class _Shown(msgspec.Struct):
    name: str = ""
    path: str = ""


def shown_skill(result: ToolResult) -> str:
    """The skill whose own text stands in the answer; "" where there is none, as with one of its other files.

    The answer tells, and not the call: a near miss of a name is resolved, and so is a path that is not there.
    """
    if result.name != _VIEW or not result.ok:
        return ""
    try:
        shown = msgspec.json.decode(result.content.encode(), type=_Shown)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return ""
    return "" if shown.path else shown.name
