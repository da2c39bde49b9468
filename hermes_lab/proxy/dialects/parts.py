"""What the dialects have in common: content in parts, tool results, and server-sent events."""

import itertools
import json
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from hermes_lab.models.wires.calls import arguments_text
from hermes_lab.models.wires.loose import mapping, text
from hermes_lab.types import Message, ToolCall, ToolResult

_SILENT = frozenset({"thinking", "redacted_thinking", "reasoning", "reasoning_text", "summary_text"})
_LOST = frozenset({"image", "image_url", "input_image", "input_audio", "audio", "document", "input_file", "file"})


@dataclass
class Parts:
    """Reads content that is a text or a list of parts, and counts what is lost."""

    lost: int = 0

    def text(self, content: object) -> str:
        """The text of all parts, one per line. Thoughts are left out, images and files become a note."""
        if content is None or isinstance(content, str):
            return content or ""
        if not isinstance(content, list):
            return as_json(content)
        return "\n".join(found for part in content if (found := self._part(part)) is not None)

    def _part(self, part: object) -> str | None:
        if isinstance(part, str):
            return part
        known = mapping(part)
        kind = text(known.get("type"))
        for name in ("text", "refusal"):
            if isinstance(found := known.get(name), str) and kind not in _SILENT:
                return found
        if kind in _SILENT:
            return None
        if kind in _LOST:
            self.lost += 1
            return f"[{kind.removeprefix('input_')}]"
        return as_json(part)


def as_json(value: object) -> str:
    """A value as JSON."""
    return json.dumps(value, ensure_ascii=False, default=str)


def result_message(call_id: str, content: str, calls: Iterable[ToolCall], *, ok: bool = True) -> Message:
    """The message of a tool result; `calls` are those before it, by which its tool is known."""
    name = next((call.name for call in reversed(list(calls)) if call.id == call_id), "")
    result = ToolResult(call_id, name, content, ok=ok and not _is_error(content))
    return Message(role="tool", content=content, results=(result,), tool_call_id=call_id)


def _is_error(content: str) -> bool:
    """Whether a result is an object with an error and no output, as most tools report failures."""
    if not content.lstrip().startswith("{") or '"error"' not in content:
        return False
    try:
        found = mapping(msgspec.json.decode(content))
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return False
    return bool(found.get("error")) and not found.get("output") and not found.get("success")


def written_arguments(call: ToolCall) -> str:
    """The arguments of a call as the model wrote them. Those of a call that must not run, such as one that was cut off,
    are no JSON, so that the program refuses it."""
    if not call.error:
        return arguments_text(call)
    try:
        msgspec.json.decode(call.raw.strip() or "{}")
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return call.raw
    return f"{call.raw}<{call.error}>"


def function_schema(name: object, description: object, parameters: object) -> dict[str, Any]:
    """An OpenAI function schema."""
    return {
        "type": "function",
        "function": {
            "name": text(name),
            "description": text(description),
            "parameters": dict(mapping(parameters)) or {"type": "object", "properties": {}},
        },
    }


def sse(events: Sequence[tuple[str, object]], *, named: bool) -> bytes:
    """Server-sent events of (type, data); strings are sent as they are."""
    lines = []
    for name, data in events:
        told = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
        lines.append(f"event: {name}\ndata: {told}\n\n" if named else f"data: {told}\n\n")
    return "".join(lines).encode(errors="replace")


def new_id(prefix: str) -> str:
    """An id for a reply."""
    return f"{prefix}{secrets.token_hex(12)}"


def merged(messages: Iterable[Message]) -> list[Message]:
    """The messages, with neighbouring assistant messages joined to one: some interfaces have an item for each call."""
    joined: list[Message] = []
    for assistant, group in itertools.groupby(messages, lambda message: message.role == "assistant"):
        if not assistant:
            joined += group
            continue
        parts = list(group)
        joined.append(
            Message(
                role="assistant",
                content="\n\n".join(part.content for part in parts if part.content),
                tool_calls=tuple(call for part in parts for call in part.tool_calls),
                reasoning="\n\n".join(part.reasoning for part in parts if part.reasoning),
            )
        )
    return joined
