"""Tool call handling shared by the wire formats."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from hermes_lab.models.hermes_format import parse_arguments
from hermes_lab.types import Message, ToolCall


def read_call(call_id: str, name: str, arguments: object, provider_fields: Mapping[str, Any]) -> ToolCall:
    """Parses a structured call; `error` says why its name or arguments cannot be read."""
    kept = dict(provider_fields)
    try:
        if not name:
            raise ValueError("it does not name a tool")
        return ToolCall(call_id, name, parse_arguments(arguments), provider_fields=kept)
    except (ValueError, RecursionError) as error:
        raw = arguments if isinstance(arguments, str) else str(arguments)
        return ToolCall(call_id, name or "unknown", error=f"invalid tool call: {error}", raw=raw, provider_fields=kept)


def arguments_text(call: ToolCall) -> str:
    """The arguments as sent back; "{}" if they were not JSON, as servers refuse or drop broken text."""
    return msgspec.json.encode(call.arguments).decode()


def with_own_ids(calls: Sequence[ToolCall], sent: Sequence[Message]) -> tuple[ToolCall, ...]:
    """The calls of a reply to `sent`, with ids unique in the conversation; some servers count from 0 every time.

    New ids have nine letters and digits, which every chat template accepts.
    """
    taken = {call.id for message in sent for call in message.tool_calls}
    own: list[ToolCall] = []
    for number, call in enumerate(calls):
        if not call.id or call.id in taken:
            call = msgspec.structs.replace(call, id=free_id(len(sent), number, taken))
        taken.add(call.id)
        own.append(call)
    return tuple(own)


def free_id(length: int, number: int, taken: Collection[str]) -> str:
    """A free id with that number. After a compression the conversation is shorter, and the id may be taken."""
    while (call_id := f"call{length:03d}{number:02d}") in taken:
        number += 1
    return call_id
