"""A program in a sandbox at Daytona as a stream of bytes: a terminal behind a websocket, with a relay in it."""

import asyncio
import functools
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from hermes_lab.errors import SandboxError
from hermes_lab.sandbox import daytona_relay as relay

if TYPE_CHECKING:
    import aiohttp

    from hermes_lab.sandbox.daytona_api import Toolbox

_SESSION = "hermes-lab"
_PIECE = 16 << 10  # the service closes a connection on which a message is longer than 64 KiB
_ALIVE_SECONDS = 20.0
_CLOSE_SECONDS = 3.0
_KEPT_ERRORS = 1 << 14
_MOST_NOISE = 1 << 20
_ESCAPES = re.compile(rb"\x1b(\[[0-9;?]*[A-Za-z]|\][^\x07\x1b]*(\x07|\x1b\\)|.)")
# Typed into whatever shell the image has. The output of one that ends at once may be lost, so it lingers.
_TYPED = b"""exec /bin/sh -c 'python3 -I -S -c "$HERMES_LAB_RELAY" || sleep 1'\n"""


async def start(toolbox: "Toolbox", command: str, workspace: str) -> "PtyStream":
    """Starts a shell command in the sandbox, with its stdin and stdout. `workspace` is made first. Raises
    `SandboxError`."""
    code = f"{_relay()}\n\nmain({command!r}, {workspace!r})\n"
    # It starts when the connection is there, so nothing that it says is lost. It is too small for the questions that
    # zsh asks a user without a .zshrc (zsh-newuser-install), which would take what is typed for their answers.
    asked = {"id": _SESSION, "cols": 70, "rows": 14, "lazyStart": True, "envs": {"HERMES_LAB_RELAY": code}}
    await toolbox.request("POST", "/process/pty", asked, what="starting a terminal")
    socket = await toolbox.connect(f"/process/pty/{_SESSION}/connect")
    stream = PtyStream(socket)
    try:
        await stream.send_typed(_TYPED)
    except OSError as error:
        await socket.close()
        raise SandboxError(f"sandbox: daytona: the connection was lost: {error}") from None
    return stream


@functools.cache
def _relay() -> str:
    return Path(relay.__file__).read_text()


class PtyStream:
    """See `ByteStream`. What the terminal says before the relay is ready is kept as an error message."""

    def __init__(self, socket: "aiohttp.ClientWebSocketResponse") -> None:
        self._socket = socket
        self._noise = b""
        self._frames = bytearray()
        self._ready = False
        self._ended = False
        self._stderr = b""
        self._closed = ""
        self._alive: asyncio.Task[None] | None = None

    async def send_typed(self, line: bytes) -> None:
        """Writes to the terminal itself, which the relay does not have yet. Raises `OSError`."""
        await self._send(line)

    async def _send(self, data: bytes) -> None:
        import aiohttp

        try:
            await self._socket.send_bytes(data)
        except (aiohttp.ClientError, ConnectionError, RuntimeError) as error:
            raise OSError(str(error) or type(error).__name__) from None

    async def send(self, data: bytes) -> None:
        """See `ByteStream.send`."""
        for start in range(0, len(data), _PIECE):
            piece = data[start : start + _PIECE]
            await self._send(relay.HEAD.pack(b"D", len(piece)) + piece)

    async def receive(self) -> bytes:
        """See `ByteStream.receive`."""
        while True:
            if self._ready and (out := self._taken()):
                return out
            if self._ended or (said := await self._message()) is None:
                return b""
            if self._ready:
                self._frames += said
            else:
                said = self._after_noise(said)
            if self._ready and said:
                # Each message is confirmed, since it may hold all the frames that were on the way.
                with suppress(OSError):
                    await self._send(relay.HEAD.pack(b"A", len(said)))

    def _after_noise(self, data: bytes) -> bytes:
        """The bytes after the relay's first words, if they are there."""
        self._noise += data
        before, found, after = self._noise.partition(relay.READY)
        if not found:
            self._noise = self._noise[-_MOST_NOISE:]
            return b""
        self._noise, self._ready = before, True
        self._frames += after
        self._alive = asyncio.get_running_loop().create_task(self._keep_alive())
        return after

    def _taken(self) -> bytes:
        """The stdout in the frames that are complete."""
        out, place = bytearray(), 0
        while len(self._frames) - place >= relay.HEAD.size:
            kind, size = relay.HEAD.unpack_from(self._frames, place)
            end = place + relay.HEAD.size + size
            if len(self._frames) < end:
                break
            data = bytes(self._frames[place + relay.HEAD.size : end])
            place = end
            if kind == b"O":
                out += data
            elif kind == b"S":
                self._stderr = (self._stderr + data)[-_KEPT_ERRORS:]
            elif kind == b"X":
                self._ended = True
            else:  # something else has written to the terminal
                self._ended, self._closed = True, "the terminal's stream is broken"
                break
        del self._frames[:place]
        return bytes(out)

    async def _message(self) -> bytes | None:
        """The next message of the terminal; None at its end, with the reason kept."""
        import aiohttp

        message = await self._socket.receive()
        if message.type == aiohttp.WSMsgType.BINARY:
            return bytes(message.data)
        if message.type == aiohttp.WSMsgType.TEXT:
            return self._controlled(message)
        if message.type == aiohttp.WSMsgType.CLOSE and message.data != aiohttp.WSCloseCode.OK:
            self._closed = f"{message.extra or 'closed'} ({message.data})"
        elif message.type == aiohttp.WSMsgType.ERROR:
            self._closed = str(message.data)
        self._ended = True
        return None

    def _controlled(self, message: "aiohttp.WSMessage") -> bytes:
        """Text: the service's messages about the terminal, or else the terminal's output."""
        try:
            said = message.json()
        except ValueError:
            said = None
        if not isinstance(said, dict) or said.get("type") != "control":
            return str(message.data).encode()
        if said.get("status") == "error":
            self._closed, self._ended = str(said.get("error", "error")), True
        elif said.get("status") == "exited":
            self._ended = True
        return b""

    async def _keep_alive(self) -> None:
        """Lets the relay know that this end lives."""
        with suppress(OSError):
            while True:
                await anyio.sleep(_ALIVE_SECONDS)
                await self._send(relay.HEAD.pack(b"K", 0))

    def errors(self) -> str:
        """See `ByteStream.errors`; what the terminal said, if the relay never started."""
        said = self._stderr if self._ready else _ESCAPES.sub(b"", self._noise)[-_KEPT_ERRORS:]
        return "\n".join(part for part in (said.decode(errors="replace"), self._closed) if part)

    async def aclose(self) -> None:
        """See `ByteStream.aclose`."""
        if self._alive:
            self._alive.cancel()
        with anyio.CancelScope(shield=True), anyio.move_on_after(_CLOSE_SECONDS), suppress(OSError):
            if self._ready and not self._ended:
                await self._send(relay.HEAD.pack(b"E", 0))
        with anyio.CancelScope(shield=True), anyio.move_on_after(_CLOSE_SECONDS):
            await self._socket.close()
