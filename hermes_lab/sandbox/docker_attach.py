"""The attached connection to a container's process 1: its stdin, stdout and stderr."""

import socket
import struct
from typing import Any

import anyio

_HEADER = struct.Struct(">BxxxL")  # stream number, and length of the payload
_STDOUT = 1
_CHUNK = 4096


class Attached:
    """Wraps the result of `APIClient.attach_socket`. When it is closed, the engine closes the container's stdin."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream  # keeps the connection from being garbage collected
        self._socket: socket.socket = stream._sock
        self._socket.setblocking(False)
        self._raw = bytearray()
        self._out = bytearray()
        self._errors = bytearray()

    @property
    def errors(self) -> str:
        """The stderr output, on one line."""
        return " ".join(self._errors.decode(errors="replace").split())

    def fileno(self) -> int:
        """The descriptor of the connection."""
        return self._socket.fileno()

    def send(self, data: bytes) -> None:
        """Writes to stdin; a few bytes, so it never blocks."""
        self._socket.sendall(data)

    async def line(self) -> bytes:
        """The next line of stdout; empty if process 1 has ended."""
        while b"\n" not in self._out:
            await anyio.wait_readable(self._socket)
            chunk = self._socket.recv(_CHUNK)
            if not chunk:
                return b""
            self._raw += chunk
            self._take_frames()
        line, _, rest = self._out.partition(b"\n")
        self._out = rest
        return bytes(line)

    def close(self) -> None:
        """Closes the connection."""
        self._stream._response.close()
        self._stream.close()

    def _take_frames(self) -> None:
        while len(self._raw) >= _HEADER.size:
            stream, length = _HEADER.unpack_from(self._raw)
            end = _HEADER.size + length
            if len(self._raw) < end:
                return
            target = self._out if stream == _STDOUT else self._errors
            target += self._raw[_HEADER.size : end]
            del self._raw[:end]
