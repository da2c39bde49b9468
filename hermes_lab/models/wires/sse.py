"""Server-sent events: parses a streamed reply's bytes into the JSON of its events."""

from typing import Any

from hermes_lab.errors import ModelError
from hermes_lab.models.wires.loose import decode_json

DONE = "[DONE]"
"""The end marker of a chat completions stream, kept among the events as a string."""


def is_stream(content: bytes) -> bool:
    """Whether the bytes are a stream: some servers stream even if not asked to."""
    return content.removeprefix(b"\xef\xbb\xbf").lstrip().startswith((b"data:", b"event:", b": ", b":\n", b"id:"))


def events_of(content: bytes) -> list[Any]:
    """The events of a complete stream, in order; lines end in CR, LF or both.

    Skips what is not JSON, such as keep-alive comments of a proxy.
    """
    events: list[Any] = []
    lines = content.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    data: list[bytes] = []
    for line in [*lines, b""]:
        name, _, value = line.partition(b":")
        if name == b"data":
            data.append(value.removeprefix(b" "))
        elif not line and data:
            events += _event(b"\n".join(data))
            data = []
    return events


def _event(data: bytes) -> list[Any]:
    if data.strip() == DONE.encode():
        return [DONE]
    try:
        return [decode_json(data)]
    except ModelError:
        # Some servers end an event with a single line break.
        pieces = data.split(b"\n")
        return [event for piece in pieces for event in _event(piece)] if len(pieces) > 1 else []
