"""Calls written as bare JSON instead of in the tags of the format."""

import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from hermes_lab.models.parsers._blocks import call_of
from hermes_lab.models.parsers._ends import without_ends
from hermes_lab.models.parsers._values import decode, skip_space
from hermes_lab.types import ToolCall

_FENCE = re.compile(r"^[ \t]*+(?P<marks>`{3,}+|~{3,}+)[ \t]*+(?P<info>[^\s`{]*+)(?P<more>[^\n`{]*+)", re.MULTILINE)
_INFOS = frozenset({"", "json", "tool_call", "tool_calls"})
_SHAPES = tuple({name, given} for name in ("name", "function") for given in ("arguments", "parameters"))


class Found(NamedTuple):
    """The calls, the text outside of them, and the text after the last call."""

    calls: list[ToolCall]
    content: str
    after: str = ""


def bare_calls(text: str, tools: Collection[str] | None = None) -> Found:
    """Calls as bare JSON at the end of a text, each in its own code fence, or as the whole text.

    A call followed by other text is an example or a plan, and does not count. With `tools`, the offered names, calls
    after other text count only if all of them name one; a text consisting only of calls counts in any case, unless no
    tools are offered.
    """
    found = quoted_calls(text)
    named = tools is None or (all(call.name in tools for call in found.calls) if found.content else bool(tools))
    return found if named and not found.after else Found([], without_ends(text))


def quoted_calls(text: str) -> Found:
    """Code fences, or the whole text, whose entire content is one JSON object with a name and arguments."""
    bare = without_ends(text)
    if (whole := _call(bare, 0)) and not bare[whole[1] :].strip():
        return Found([whole[0]], "")
    calls: list[ToolCall] = []
    pieces: list[str] = []
    begin = at = 0
    while fence := _FENCE.search(bare, at):
        closing = re.compile(rf"[ \t]*+{re.escape(fence['marks'])}[ \t]*+(?:\r?\n|\Z)")
        found = _call(bare, fence.end()) if fence["info"].lower() in _INFOS and not fence["more"].strip() else None
        end = closing.match(bare, skip_space(bare, found[1])) if found else None
        if found and end:
            calls.append(found[0])
            pieces.append(bare[begin : fence.start()])
            begin = at = end.end()
        else:
            other = re.compile(rf"^{closing.pattern}", re.MULTILINE).search(bare, fence.end())
            at = other.end() if other else len(bare)
    pieces.append(bare[begin:])
    return Found(calls, "\n".join(stripped for piece in pieces if (stripped := piece.strip())), pieces[-1].strip())


def _call(text: str, start: int) -> tuple[ToolCall, int] | None:
    """The call in the JSON from `start` on, and its end; None if it is not a call."""
    at = skip_space(text, start)
    if not text.startswith("{", at):
        return None
    try:
        value, end = decode(text, at)
        return (call_of(named), end) if (named := _named(value)) else None
    except ValueError:
        return None


def _named(value: Mapping[str, Any]) -> dict[str, Any] | None:
    """The `name` and arguments of a call in the shapes of several APIs; None for other JSON."""
    fields = {key: each for key, each in value.items() if (key, each) != ("type", "function")}
    if set(fields) == {"function"} and isinstance(fields["function"], dict):
        fields = fields["function"]
    if set(fields) not in _SHAPES or not isinstance(fields.get("arguments", fields.get("parameters")), dict):
        return None
    return {"name" if key == "function" else key: each for key, each in fields.items()}
