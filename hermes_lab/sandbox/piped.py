"""A warm sandbox that is a child process behind two pipes: the common part of bubblewrap and local."""

from __future__ import annotations

import os
import signal
from abc import abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio.lowlevel import RunVar

from hermes_lab.errors import SandboxError
from hermes_lab.sandbox import launch
from hermes_lab.sandbox.extras import NOTHING_MORE, Extras
from hermes_lab.sandbox.folders import EpisodeFolders, close_exchange, close_folders, open_exchange, open_folders
from hermes_lab.sandbox.spawn import Piped
from hermes_lab.sandbox.warm import WarmSandbox

if TYPE_CHECKING:
    from hermes_lab.config.sandboxes import SandboxConfig
    from hermes_lab.types import Root

_READY = b"ready\n"
_turn: RunVar[anyio.Semaphore] = RunVar("_turn")


def _one_at_a_time() -> anyio.Semaphore:
    """Limits starts to one per iteration of the event loop: each takes milliseconds, and hundreds may be due at
    once."""
    try:
        return _turn.get()
    except LookupError:
        _turn.set(semaphore := anyio.Semaphore(1))
        return semaphore


class PipedSandbox(WarmSandbox):
    """Commands are forks of process 1, which is signalled through a pidfd."""

    _start_seconds = 30.0
    _kill_seconds = 5.0
    _appended = True

    def __init__(self, config: SandboxConfig, extras: Extras = NOTHING_MORE, root: Root | None = None) -> None:
        super().__init__(config, extras, root)
        self._piped: Piped | None = None
        self._said = b""

    @abstractmethod
    def _launch(self) -> Piped:
        """Starts process 1. Raises `OSError` or `SandboxError` on failure."""

    @abstractmethod
    async def _kill(self, started: Piped) -> None:
        """Kills every process of the episode and waits until they are gone."""

    @abstractmethod
    def process_1(self) -> int | None:
        """Its host pid; None if it is gone."""

    def _open_folders(self) -> EpisodeFolders:
        return open_folders(self.owner, home=self.extras.home, workspace=self.extras.workspace)

    def _open_exchange(self) -> Path:
        return open_exchange(self.owner)

    async def _start(self) -> None:
        async with _one_at_a_time():
            self._piped = self._launch()

    async def _ready(self) -> None:
        """Waits for the first line, which may arrive in pieces and after output of the launcher."""
        assert self._piped is not None
        while not self._said.endswith(_READY):
            await anyio.wait_readable(self._piped.stdout)
            self._said += self._take(self._piped.stdout)

    def _send(self, line: bytes) -> None:
        assert self._piped is not None
        os.write(self._piped.stdin, line)

    def _replies(self) -> int:
        assert self._piped is not None
        return self._piped.stdout

    async def _line(self) -> list[str]:
        """The next line; process 1 writes each with a single call."""
        assert self._piped is not None
        await anyio.wait_readable(self._piped.stdout)
        return self._take(self._piped.stdout).decode().split()

    def _take(self, stdout: int) -> bytes:
        """Reads the available output."""
        if data := os.read(stdout, 4096):
            return data
        if self._said.endswith(_READY):
            raise SandboxError("sandbox: it was killed")
        raise SandboxError(launch.why_failed(self._said.decode(errors="replace")))

    async def _signal(self, number: signal.Signals) -> None:
        if (pid := self.process_1()) is None:
            return
        with suppress(ProcessLookupError):
            fd = os.pidfd_open(pid)
            try:
                if self.process_1() == pid:  # so the pidfd does not belong to a process that reuses the pid
                    signal.pidfd_send_signal(fd, number)
            finally:
                os.close(fd)

    async def _end(self) -> None:
        if (started := self._piped) is not None:
            await self._kill(started)
            os.close(started.stdin)
            os.close(started.stdout)
        self._exchange.clear(last=True)
        if self._host is None:
            await close_folders(self.folders, self.owner)
        else:
            close_exchange(self.folders.exchange, self.owner)


async def gone(pid: int) -> None:
    """Waits for a child to end and reaps it."""
    fd = os.pidfd_open(pid)
    try:
        await anyio.wait_readable(fd)
    finally:
        os.close(fd)
    os.waitpid(pid, 0)  # noqa: ASYNC222
