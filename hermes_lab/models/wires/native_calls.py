"""Tools and calls of the native formats (`anthropic`, `responses`), with names and ids that the API accepts."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from hermes_lab.types import Message, ToolCall

CUT = "the reply was cut off before the call was complete"
"""Why a call is not run: an endpoint may have filled in what is missing of its arguments."""
# Both APIs refuse other characters. 64 is the limit of OpenAI, and the older one of Anthropic.
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")


class Function(NamedTuple):
    """A tool, taken out of its OpenAI function schema."""

    name: str
    description: str
    parameters: Mapping[str, Any]


def function(schema: Mapping[str, Any]) -> Function:
    """The parts of an OpenAI function schema; a function without parameters takes an empty object."""
    declared = schema["function"]
    parameters = declared.get("parameters") or {"type": "object", "properties": {}}
    return Function(declared["name"], declared.get("description", ""), parameters)


def broken_call(call_id: str, name: str, arguments: object, why: str) -> ToolCall:
    """A call that is answered with an error, and never run."""
    raw = arguments if isinstance(arguments, str) else str(arguments)
    return ToolCall(call_id, name or "unknown", error=f"invalid tool call: {why}", raw=raw)


def own_ids(given: Sequence[str], sent: Sequence[Message]) -> list[str]:
    """Ids for the calls of a reply to `sent`, as the server gave them. Some servers count from 0 each time, or use
    characters that the API refuses: such an id is replaced, so that no two of a conversation are alike."""
    taken = {call.id for message in sent for call in message.tool_calls}
    own: list[str] = []
    for number, call_id in enumerate(given):
        if call_id in taken or not _NAME.fullmatch(call_id):
            call_id = _free_id(len(sent), number, taken)
        taken.add(call_id)
        own.append(call_id)
    return own


def sendable_id(call_id: str) -> str:
    """An id that the API accepts, the same for a call and its result: other models' ids may have other characters."""
    return _NOT_IN_NAMES.sub("_", call_id)[:64] or "call"


def sendable_name(name: str) -> str:
    """The name of a called function, where the API accepts it: a model may call what is no name."""
    return name if _NAME.fullmatch(name) else "unknown"


def _free_id(length: int, number: int, taken: Collection[str]) -> str:
    """After a summary the conversation is shorter, and may hold the id of that length already."""
    while (call_id := f"call{length:03d}{number:02d}") in taken:
        number += 1
    return call_id
