"""What the wire formats share about tool calls."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from hermes_lab.models.hermes_format import parse_arguments
from hermes_lab.types import Message, ToolCall


def read_call(call_id: str, name: str, arguments: object, provider_fields: Mapping[str, Any]) -> ToolCall:
    """A structured call; one whose name or arguments cannot be read says why in `error`."""
    kept = dict(provider_fields)
    try:
        if not name:
            raise ValueError("it names no function")
        return ToolCall(call_id, name, parse_arguments(arguments), provider_fields=kept)
    except (ValueError, RecursionError) as error:
        raw = arguments if isinstance(arguments, str) else str(arguments)
        return ToolCall(call_id, name or "unknown", error=f"invalid tool call: {error}", raw=raw, provider_fields=kept)


def arguments_text(call: ToolCall) -> str:
    """The arguments as they go back. A call whose arguments were no JSON goes back without any: servers refuse or drop
    the broken text."""
    return msgspec.json.encode(call.arguments).decode()


def with_own_ids(calls: Sequence[ToolCall], sent: Sequence[Message]) -> tuple[ToolCall, ...]:
    """The calls of a reply to `sent`. No two of a conversation share an id; some servers count from 0 each time. Nine
    letters and digits are an id that every chat template takes."""
    taken = {call.id for message in sent for call in message.tool_calls}
    own: list[ToolCall] = []
    for number, call in enumerate(calls):
        if not call.id or call.id in taken:
            call = msgspec.structs.replace(call, id=f"call{len(sent):03d}{number:02d}")
        taken.add(call.id)
        own.append(call)
    return tuple(own)
