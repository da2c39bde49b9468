"""Calls that a model writes as bare JSON, where it should have put them in the tags of its format."""

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
    """The calls, the text outside of them, and what of it stands after the last call."""

    calls: list[ToolCall]
    content: str
    after: str = ""


def bare_calls(text: str, tools: Collection[str] | None = None) -> Found:
    """The calls that end a text as bare JSON, each in a code fence of its own; or the text itself, where it is one.

    A call that is followed by other text is an example or a plan, and no call. With `tools`, the names of those that
    are offered, calls after other text count where all of them name one; what is nothing but calls counts whatever it
    names, where there are tools at all.
    """
    found = quoted_calls(text)
    named = tools is None or (all(call.name in tools for call in found.calls) if found.content else bool(tools))
    return found if named and not found.after else Found([], without_ends(text))


def quoted_calls(text: str) -> Found:
    """Each code fence whose whole content is one JSON object of a name and arguments, and nothing else; or the text
    itself, where it is such an object as a whole. Any other JSON is text."""
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
    """The call that the JSON from `start` on is, and its end; None where it is none."""
    at = skip_space(text, start)
    if not text.startswith("{", at):
        return None
    try:
        value, end = decode(text, at)
        return (call_of(named), end) if (named := _named(value)) else None
    except ValueError:
        return None


def _named(value: Mapping[str, Any]) -> dict[str, Any] | None:
    """The `name` and the arguments of a call, which models write in the shapes of several APIs; None for other JSON."""
    fields = {key: each for key, each in value.items() if (key, each) != ("type", "function")}
    if set(fields) == {"function"} and isinstance(fields["function"], dict):
        fields = fields["function"]
    if set(fields) not in _SHAPES or not isinstance(fields.get("arguments", fields.get("parameters")), dict):
        return None
    return {"name" if key == "function" else key: each for key, each in fields.items()}
