"""Tools and calls of the native formats (`anthropic`, `responses`), with names and ids that the API accepts."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hermes_lab.models.wires.calls import free_id
from hermes_lab.types import Message, ToolCall

# Both APIs refuse other characters. 64 is OpenAI's limit and Anthropic's older one.
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")


class Function(NamedTuple):
    """A tool, from its OpenAI function schema."""

    name: str
    description: str
    parameters: Mapping[str, Any]


def function(schema: Mapping[str, Any]) -> Function:
    """Parses an OpenAI function schema; without parameters, it takes an empty object."""
    declared = schema["function"]
    parameters = declared.get("parameters") or {"type": "object", "properties": {}}
    return Function(declared["name"], declared.get("description", ""), parameters)


def broken_call(call_id: str, name: str, arguments: object, why: str) -> ToolCall:
    """A call that is answered with an error and never run."""
    raw = arguments if isinstance(arguments, str) else str(arguments)
    return ToolCall(call_id, name or "unknown", error=f"invalid tool call: {why}", raw=raw)


def cut_call(call_id: str, name: str, arguments: object) -> ToolCall:
    """A truncated call. It is not run, as an endpoint may have completed its arguments."""
    return broken_call(call_id, name, arguments, "the reply was cut off before the call was complete")


def own_ids(given: Sequence[str], sent: Sequence[Message]) -> list[str]:
    """Ids for the calls of a reply to `sent`: the server's, or new ones if those are duplicates or contain characters
    that the API refuses."""
    taken = {call.id for message in sent for call in message.tool_calls}
    own: list[str] = []
    for number, call_id in enumerate(given):
        if call_id in taken or not _NAME.fullmatch(call_id):
            call_id = free_id(len(sent), number, taken)
        taken.add(call_id)
        own.append(call_id)
    return own


def sendable_id(call_id: str) -> str:
    """An id that the API accepts, the same for a call and its result; other models' ids may contain other
    characters."""
    return _NOT_IN_NAMES.sub("_", call_id)[:64] or "call"


def sendable_name(name: str) -> str:
    """The function's name if the API accepts it, else a replacement; a model may call anything."""
    return name if _NAME.fullmatch(name) else "unknown"
