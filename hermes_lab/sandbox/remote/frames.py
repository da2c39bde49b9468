"""The messages between a `RemoteSandbox` and its worker: a JSON header and bytes, each after its length.

Part of what is sent to other machines, so it imports the standard library alone.
"""

from __future__ import annotations

import json
import struct
from typing import Any, NamedTuple

_LENGTHS = struct.Struct(">II")
_LARGEST = 1 << 30


class Frame(NamedTuple):
    """A message: `head` says what it is, `body` is the content of a file, an output or an archive."""

    head: dict[str, Any]
    body: bytes = b""


class BrokenFrame(Exception):
    """The stream does not hold frames."""


def encode(head: dict[str, Any], body: bytes = b"") -> bytes:
    """The bytes of a frame. Text that is no Unicode, such as a file's name, is kept."""
    text = json.dumps(head).encode("ascii")
    return _LENGTHS.pack(len(text), len(body)) + text + body


class Decoder:
    """Takes bytes as they come, and gives the frames that are complete."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that these bytes complete. Raises `BrokenFrame`."""
        self._buffer += data
        frames = []
        while len(self._buffer) >= _LENGTHS.size:
            head, body = _LENGTHS.unpack_from(self._buffer)
            if head > _LARGEST or body > _LARGEST:
                raise BrokenFrame(f"a message of {max(head, body)} bytes")
            end = _LENGTHS.size + head + body
            if len(self._buffer) < end:
                break
            view = bytes(self._buffer[_LENGTHS.size : end])
            try:
                frames.append(Frame(json.loads(view[:head]), view[head:]))
            except ValueError as error:
                raise BrokenFrame(str(error)) from None
            del self._buffer[:end]
        return frames
