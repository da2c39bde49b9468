"""Server-sent events: parses a streamed reply's bytes into the JSON of its events."""

from typing import Any

from hermes_lab.errors import ModelError
from hermes_lab.models.wires.loose import decode_json

DONE = "[DONE]"
"""The end marker of a chat completions stream, kept among the events as a string."""
_BOM = b"\xef\xbb\xbf"


def is_stream(content: bytes) -> bool:
    """Whether the bytes are a stream: some servers stream even if not asked to."""
    return content.removeprefix(_BOM).lstrip().startswith((b"data:", b"event:", b": ", b":\n", b"id:"))


def events_of(content: bytes) -> list[Any]:
    """The events of a complete stream, in order; see `EventReader`."""
    reader = EventReader()
    return [*reader.feed(content), *reader.end()]


class EventReader:
    """Parses a stream that arrives in pieces, cut anywhere; lines end in CR, LF or both.

    Skips what is not JSON, such as keep-alive comments of a proxy.
    """

    def __init__(self) -> None:
        self._rest = bytearray()  # an unfinished line
        self._begun = False
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[Any]:
        """The events that are complete with this piece, in order."""
        searched = max(len(self._rest) - 1, 0)
        self._rest += chunk
        # A CR at the end may be the first half of a line ending.
        cut = max(self._rest.rfind(b"\n", searched), self._rest.rfind(b"\r", searched, -1)) + 1
        received = bytes(self._rest[:cut])
        del self._rest[:cut]
        return self._events(received)

    def end(self) -> list[Any]:
        """The events of an unfinished last line, and of a last event without a blank line after it."""
        rest, self._rest = bytes(self._rest), bytearray()
        return self._events(rest) + self._line(b"")

    def _events(self, text: bytes) -> list[Any]:
        if text and not self._begun:
            text, self._begun = text.removeprefix(_BOM), True
        lines = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        if not lines[-1]:  # after the last line ending
            del lines[-1]
        return [event for line in lines for event in self._line(line)]

    def _line(self, line: bytes) -> list[Any]:
        name, _, value = line.partition(b":")
        if name == b"data":
            value = value.removeprefix(b" ")
            if not self._data and (event := _event(value)):
                return event  # at once: some servers end an event with a single line break
            self._data.append(value)
        elif not line and self._data:
            data, self._data = self._data, []
            return _event(b"\n".join(data))
        return []


def _event(data: bytes) -> list[Any]:
    if data.strip() == DONE.encode():
        return [DONE]
    try:
        return [decode_json(data)]
    except ModelError:
        pieces = data.split(b"\n")
        return [event for piece in pieces for event in _event(piece)] if len(pieces) > 1 else []
