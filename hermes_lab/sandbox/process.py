"""A program in a sandbox with pipes to the harness: named pipes in the exchange folder, opened by a fork of process 1.

No path inside the sandbox leads to that folder.
"""

import asyncio
import fcntl
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import anyio

from hermes_lab.errors import SandboxError

_PIPES = ("in", "out", "err", "status")
_START_SECONDS = 60.0
_CHUNK = 1 << 16
_MOST = 1 << 20
"""Bytes of output that wait to be received before the program must wait."""
_ERRORS = 1 << 14
"""Bytes of stderr that are kept."""
_KILLED = 137
_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC
_OPEN = b"\nopen\n"
"""What follows the pid on the status pipe."""


class SandboxProcess:
    """See `hermes_lab.protocols.Process`. Used in the event loop that started it."""

    def __init__(self, exchange: Path, number: int, send: Callable[[bytes], None]) -> None:
        self._paths = {pipe: exchange / f"{number}.{pipe}" for pipe in _PIPES}
        self._command = exchange / f"{number}.command"
        self._number = number
        self._tell = send
        self._fds: dict[str, int] = {}
        self._output = bytearray()
        self._stderr = bytearray()
        self._said = b""
        self._status: int | None = None
        self._open = True
        self._changed = asyncio.Event()
        self._reading: set[str] = set()
        self._sending = anyio.Lock()
        self._notices: list[str] = []

    @property
    def ended(self) -> bool:
        """Whether it has ended; its pipes are closed then."""
        return self._status is not None

    async def begin(self, command: Sequence[str], environment: Mapping[str, str], workdir: str) -> None:
        """Starts the program; no command may run meanwhile. Raises `SandboxError` if process 1 does not start it."""
        try:
            self._prepare(command, environment, workdir)
            self._tell(b"start %d\n" % self._number)
            with anyio.fail_after(_START_SECONDS):
                await self._begun()
        except (OSError, TimeoutError) as error:
            self.close()
            raise SandboxError(f"sandbox: {command[0]} did not start: {str(error) or 'no answer'}") from None
        except anyio.get_cancelled_exc_class():
            # It starts nonetheless: process 1 must find its pipes, and nobody else will end it.
            with anyio.move_on_after(_START_SECONDS, shield=True):
                await self._begun()
                await self.kill()
            self.close()
            raise
        except BaseException:
            self.close()
            raise
        if _OPEN not in self._said:
            raise SandboxError(f"sandbox: {command[0]} did not start: the sandbox was killed, or has no room for it")

    async def _begun(self) -> None:
        """Waits until it has opened its pipes: before, none may be closed, as it would wait for ever."""
        while _OPEN not in self._said and self._status is None:
            await self._change()
        if self._status is None:  # now that it reads, the harness need not: so it learns that nobody does
            both, self._fds["in"] = self._fds["in"], os.open(self._paths["in"], os.O_WRONLY | _FLAGS)
            os.close(both)

    def _prepare(self, command: Sequence[str], environment: Mapping[str, str], workdir: str) -> None:
        variables = [f"{name}={value}" for name, value in environment.items()]
        script = f"cd -- {shlex.quote(workdir)} && exec /usr/bin/env -i {shlex.join([*variables, *command])}"
        if "\0" in script:
            raise SandboxError(f"sandbox: {command[0]!r} cannot be started: an argument has a NUL character")
        try:
            encoded = script.encode(errors="surrogateescape")
        except UnicodeEncodeError:
            raise SandboxError(f"sandbox: {command[0]!r} cannot be started: an argument is not valid text") from None
        self._command.write_bytes(encoded)
        self._command.chmod(0o644)
        for path in self._paths.values():
            os.mkfifo(path)
            path.chmod(0o666)  # whoever process 1 is; nobody else reaches the folder
        # Opened for both: without a reader, as before the program's start, it could not be opened.
        self._fds["in"] = os.open(self._paths["in"], os.O_RDWR | _FLAGS)
        for pipe in ("out", "err", "status"):
            self._fds[pipe] = os.open(self._paths[pipe], os.O_RDONLY | _FLAGS)
            self._watch(pipe)

    async def send(self, data: bytes) -> None:
        """See `Process.send`."""
        async with self._sending:
            view = memoryview(data)
            while view:
                try:
                    view = view[os.write(self._stdin(), view) :]
                except BlockingIOError:
                    await self._room()
                except BrokenPipeError:
                    raise SandboxError("sandbox: the program has closed its stdin") from None

    async def _room(self) -> None:
        """Waits until its stdin takes more, or is closed."""
        loop, fd = asyncio.get_running_loop(), self._stdin()
        loop.add_writer(fd, self._changed.set)
        try:
            await self._change()
        finally:
            if self._fds.get("in") == fd:
                loop.remove_writer(fd)

    def _stdin(self) -> int:
        if self._status is not None:
            raise SandboxError("sandbox: the program has ended")
        if "in" not in self._fds:
            raise SandboxError("sandbox: the program's stdin is closed")
        return self._fds["in"]

    async def close_stdin(self) -> None:
        """See `Process.close_stdin`."""
        self._close("in")
        self._changed.set()

    async def receive(self) -> bytes:
        """See `Process.receive`."""
        while not self._output and self._open and self._status is None:
            await self._change()
        data, self._output = bytes(self._output), bytearray()
        if self._open and self._status is None:
            self._watch("out")
        return data

    def errors(self) -> str:
        """See `Process.errors`."""
        said = self._stderr.decode(errors="replace")
        return "\n".join([*([said.removesuffix("\n")] if said else []), *self._notices, ""]) if self._notices else said

    def exceeded(self, notice: str) -> None:
        """Its sandbox hit a limit, for which it may have been killed. Called from any thread."""
        if not self.ended:
            self._notices.append(notice)

    async def wait(self) -> int:
        """See `Process.wait`."""
        while self._status is None:
            await self._change()
        return self._status

    async def kill(self) -> None:
        """See `Process.kill`."""
        if self._status is not None:
            return
        try:
            self._end()
            with anyio.move_on_after(_START_SECONDS):
                await self.wait()
        finally:
            self.close()

    def _end(self) -> None:
        """Has process 1 kill the program. If process 1 is gone, the program is, too."""
        if pid := self._said.partition(b"\n")[0]:
            with suppress(OSError):
                self._tell(b"end %d\n" % int(pid))

    def close(self) -> None:
        """Closes the pipes. The program goes on or has ended."""
        for pipe in tuple(self._fds):
            self._close(pipe)
        for path in (*self._paths.values(), self._command):
            path.unlink(missing_ok=True)
        self._open = False
        if self._status is None:
            self._status = _KILLED
        self._changed.set()

    def _close(self, pipe: str) -> None:
        self._unwatch(pipe)
        if (fd := self._fds.pop(pipe, None)) is not None:
            if pipe == "in":
                asyncio.get_running_loop().remove_writer(fd)
            os.close(fd)

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def _watch(self, pipe: str) -> None:
        if pipe not in self._reading:
            self._reading.add(pipe)
            asyncio.get_running_loop().add_reader(self._fds[pipe], self._take, pipe)

    def _unwatch(self, pipe: str) -> None:
        if pipe in self._reading:
            self._reading.discard(pipe)
            asyncio.get_running_loop().remove_reader(self._fds[pipe])

    def _take(self, pipe: str) -> None:
        """Reads what a pipe has, now that it has something or was closed by its last writer."""
        try:
            data = os.read(self._fds[pipe], _CHUNK)
        except BlockingIOError:
            return
        if pipe == "out":
            self._output += data
            self._open = bool(data)
            if not data or len(self._output) >= _MOST:
                self._unwatch(pipe)
        elif pipe == "err":
            self._stderr = (self._stderr + data)[-_ERRORS:]
            if not data:
                self._unwatch(pipe)
        else:
            self._said += data
            _, _, last = self._said.partition(_OPEN)
            if last.endswith(b"\n") or not data:
                self._finish(last)
        self._changed.set()

    def _finish(self, last: bytes) -> None:
        """It has ended, with this last line of the status pipe; empty if what waited for it was killed."""
        if not last:
            self._end()  # it may live on, such as one that killed what waited for it
        self._output += self._left("out")
        self._stderr = (self._stderr + self._left("err"))[-_ERRORS:]
        self._status = int(last) if last else _KILLED
        self.close()

    def _left(self, pipe: str) -> bytes:
        """What the program left in a pipe, which children may hold, and write to, for longer than it lives."""
        try:
            return os.read(self._fds[pipe], fcntl.fcntl(self._fds[pipe], fcntl.F_GETPIPE_SZ))
        except BlockingIOError:
            return b""
