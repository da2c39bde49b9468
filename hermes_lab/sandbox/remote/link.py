"""The near end of a worker on another machine."""

import asyncio
import itertools
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Protocol

import anyio

from hermes_lab.errors import SandboxError, ToolError
from hermes_lab.sandbox.remote.frames import BrokenFrame, Decoder, Frame, encode
from hermes_lab.sandbox.remote.package import OLDEST, SAYS, Package

_START_SECONDS = 120.0
_CLOSE_SECONDS = 10.0
_SAID = re.compile(re.escape(SAYS) + rb"(send|has|old .*|failed .*|worker ready)\n")
_MOST_NOISE = 1 << 20
_ERRORS = {"ToolError": ToolError, "SandboxError": SandboxError}


class ByteStream(Protocol):
    """A program on another machine, by its stdin and stdout."""

    async def send(self, data: bytes) -> None:
        """Writes to its stdin. Raises `OSError` if the connection is lost."""
        ...

    async def receive(self) -> bytes:
        """The next bytes of its stdout; empty at its end, or if the connection is lost."""
        ...

    def errors(self) -> str:
        """The end of its stderr."""
        ...

    async def aclose(self) -> None:
        """Closes its stdin, and ends the program."""
        ...


class Link:
    """A worker that was started behind a stream. `where` names the machine in messages."""

    def __init__(self, stream: ByteStream, where: str) -> None:
        self.where = where
        self._stream = stream
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Frame]] = {}
        self._sending = anyio.Lock()
        self._reader: asyncio.Task[None] | None = None
        self._lost = ""

    @property
    def alive(self) -> bool:
        """Whether requests can be made."""
        return self._reader is not None and not self._lost

    def number(self) -> int:
        """A number that this link has not used yet."""
        return next(self._numbers)

    async def open(self, package: Package, python: str) -> None:
        """Waits for the worker, and sends it its modules if that machine lacks them. Raises `SandboxError`."""
        said = b""
        try:
            with anyio.fail_after(_START_SECONDS):
                while True:
                    while not (found := _SAID.search(said)):
                        if not (data := await self._stream.receive()) or len(said) > _MOST_NOISE:
                            raise SandboxError(self._failed(f"{python} did not start{_end(self._stream.errors())}"))
                        said += data
                    word, said = found[1].decode(errors="replace"), said[found.end() :]
                    if word == "send":
                        await self._stream.send(package.data)
                    elif word.startswith("old"):
                        needed = ".".join(map(str, OLDEST))
                        raise SandboxError(
                            self._failed(f"{python} is Python {word[4:]}, and {needed} or newer is needed there")
                        )
                    elif word.startswith("failed"):
                        raise SandboxError(self._failed(word[7:]))
                    elif word == "worker ready":
                        break
        except TimeoutError:
            raise SandboxError(self._failed(f"no answer within {_START_SECONDS:g} seconds")) from None
        except OSError as error:
            raise SandboxError(self._failed(f"the connection was lost: {error}")) from None
        self._reader = asyncio.get_running_loop().create_task(self._read(said))

    def _failed(self, why: str) -> str:
        return f"sandbox: {self.where}: {why}"

    async def _read(self, said: bytes) -> None:
        decoder = Decoder()
        why = "the connection was lost"
        try:
            data = said
            while True:
                for frame in decoder.feed(data):
                    future = self._waiting.pop(frame.head.get("id", 0), None)
                    if future is not None and not future.done():
                        future.set_result(frame)
                if not (data := await self._stream.receive()):
                    break
        except (BrokenFrame, OSError) as error:
            why = f"the connection was lost: {error}"
        finally:
            self._lost = self._failed(f"{why}{_end(self._stream.errors())}")
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(SandboxError(self._lost))
            self._waiting.clear()

    async def request(self, op: str, body: bytes = b"", **head: Any) -> tuple[Mapping[str, Any], bytes]:
        """Asks the worker, and returns its answer. If it is cancelled, so is what the worker does. Raises the error
        that the worker met, and `SandboxError` if the connection is lost."""
        if not self.alive:
            raise SandboxError(self._lost or self._failed("it is closed"))
        number = self.number()
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            await self._send(encode({"id": number, "op": op, **head}, body))
            frame = await future
        except asyncio.CancelledError:
            self._waiting.pop(number, None)
            if self.alive:
                with anyio.CancelScope(shield=True), suppress(SandboxError):
                    await self._send(encode({"cancel": number}))
            raise
        except SandboxError:
            self._waiting.pop(number, None)
            if future.done():
                future.exception()  # which nobody waits for
            raise
        if "error" in frame.head:
            kind, message = frame.head["error"]
            raise _ERRORS[kind](message)
        return frame.head["ok"], frame.body

    async def _send(self, data: bytes) -> None:
        try:
            async with self._sending:
                await self._stream.send(data)
        except OSError as error:
            raise SandboxError(self._lost or self._failed(f"the connection was lost: {error}")) from None

    async def aclose(self) -> None:
        """Ends the worker, which ends its sandboxes."""
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(_CLOSE_SECONDS):
                await self._stream.aclose()
            if self._reader:
                self._reader.cancel()
                await asyncio.wait([self._reader])
            self._lost = self._lost or self._failed("it is closed")


def _end(said: str) -> str:
    """The last line of what a program said, for a message."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return f"; it said: {lines[-1][:300]}" if lines else ""
