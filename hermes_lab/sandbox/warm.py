"""A sandbox with a warm shell as process 1: what all backends share, with hooks for their differences."""

from __future__ import annotations

import asyncio
import signal
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, ClassVar, Self

import anyio
import anyio.to_thread

from hermes_lab.errors import SandboxError, ToolError
from hermes_lab.protocols import ExecResult
from hermes_lab.sandbox import launch, meter
from hermes_lab.sandbox.archive import pack, unpack
from hermes_lab.sandbox.exchange import Exchange
from hermes_lab.sandbox.extras import HOME, NOTHING_MORE, ROOTED_HOME, Extras
from hermes_lab.sandbox.folders import EpisodeFolders
from hermes_lab.sandbox.network import listen_inside
from hermes_lab.sandbox.process import SandboxProcess
from hermes_lab.sandbox.workspace import ROOTED_SKILLS, SKILLS, WORKSPACE, WorkspaceFolder

if TYPE_CHECKING:
    from hermes_lab.config.sandboxes import SandboxConfig
    from hermes_lab.types import Root

_TIMED_OUT = 124  # the exit code of timeout(1)
_SMALL_OUTPUT = 1_000_000


class WarmSandbox(ABC):
    """One session for a whole episode, whose shell runs commands one after another.

    Background processes live until the episode ends.
    """

    busy: bool = False
    """Whether a command is running."""
    since: float = 0.0
    """When the last command began, by `time.monotonic`."""

    _start_seconds: ClassVar[float]
    """Seconds that process 1 may take to be ready after its start."""
    _kill_seconds: ClassVar[float]
    """Seconds that a killed command may take to end, before the whole sandbox is killed."""
    _appended: ClassVar[bool]
    """See `Exchange`."""
    _limit_notices: ClassVar[Mapping[str, str]] = {}
    """The notice for each limit reported by process 1, formatted with the `config`."""

    def __init__(self, config: SandboxConfig, extras: Extras = NOTHING_MORE, root: Root | None = None) -> None:
        self.config = config
        self.extras = extras
        self.root = root
        self._programs: list[SandboxProcess] = []
        self._started = 0
        self._ended = False
        self._lock = anyio.Lock()
        self._notices: list[str] = []
        self._full = False
        self._host: WarmSandbox | None = None
        self._siblings: list[WarmSandbox] = []

    @abstractmethod
    def _open_folders(self) -> EpisodeFolders:
        """Creates folders for the episode. Raises `OSError` on failure."""

    @abstractmethod
    def _open_exchange(self) -> Path:
        """Creates only an exchange folder, for a session in an existing workspace."""

    @abstractmethod
    async def _start(self) -> None:
        """Starts process 1. Raises `SandboxError` or `OSError` on failure."""

    @abstractmethod
    def _send(self, line: bytes) -> None:
        """Writes a line to process 1; a few bytes, so it never blocks."""

    @abstractmethod
    async def _line(self) -> list[str]:
        """The words of the next line from process 1: a command's exit status and the limits that were hit.

        Raises `SandboxError` if process 1 has ended.
        """

    @abstractmethod
    async def _signal(self, number: signal.Signals) -> None:
        """Signals process 1: SIGUSR1 makes it kill the running command, SIGKILL ends it. No effect if it is gone."""

    @abstractmethod
    async def _end(self) -> None:
        """Kills every process of the episode, waits until they are gone, and removes its folders.

        Process 1 may never have started.
        """

    @abstractmethod
    def processes(self) -> Sequence[int]:
        """The host pids of all processes of the episode, without process 1."""

    @abstractmethod
    def scratch_bytes(self) -> int:
        """The size of in-memory folders that the meter must count."""

    def disk_bytes(self) -> int:
        """Disk usage of the episode's commands, including their current output. Blocks."""
        folders = self.folders
        written = (folders.workspace, folders.exchange, folders.root, folders.home)
        return sum(meter.workspace_bytes(folder) for folder in written if folder is not None)

    @property
    def owner(self) -> int | None:
        """The uid and gid of commands and of files written for them; None for the harness's own."""
        return launch.owner()

    @property
    def workspace_path(self) -> str:
        """The workspace's path as seen by commands."""
        return self.root.workdir if self.root else str(WORKSPACE)

    @property
    def skills_path(self) -> str:
        """See `Sandbox.skills_path`."""
        return str(ROOTED_SKILLS if self.root else SKILLS)

    @property
    def home_path(self) -> str:
        """See `Sandbox.home_path`."""
        return str(ROOTED_HOME if self.root else HOME)

    @property
    def home(self) -> WorkspaceFolder:
        """See `Sandbox.home`."""
        assert self.folders.home is not None, "the sandbox was opened without a home"
        return WorkspaceFolder(self.folders.home, self.owner, PurePosixPath(self.home_path))

    async def __aenter__(self) -> Self:
        try:
            self.folders = self._open_folders() if self._host is None else self._host._admit(self)
        except OSError as error:
            raise SandboxError(f"sandbox: cannot create the episode's folder: {error}") from None
        try:
            seen = PurePosixPath(self.root.workdir) if self.root else WORKSPACE
            self._workspace = WorkspaceFolder(self.folders.workspace, self.owner, seen)
            self._skills = WorkspaceFolder(self.folders.skills, self.owner, ROOTED_SKILLS if self.root else SKILLS)
            self._exchange = Exchange(self.folders.exchange, self.workspace_path, appended=self._appended)
            await self._start()
            await self._be_ready()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._host is not None and not self._host._dismiss(self):
            return
        with anyio.CancelScope(shield=True):
            for sibling in tuple(self._siblings):
                await sibling.__aexit__()
            meter.forget(self)
            self._ended = True
            for program in self._programs:
                program.close()
            await self._end()

    def fork(self) -> Self:
        """See `Sandbox.fork`. Memory and process limits are separate; the workspace limit is shared."""
        if self.root is not None:
            raise SandboxError("sandbox: a task with a system of its own has no second sandbox over it")
        sibling = type(self)(self.config, self.extras)
        sibling._host = self
        return sibling

    def _admit(self, sibling: WarmSandbox) -> EpisodeFolders:
        """The folders of a starting sibling: the episode's, except for the exchange folder."""
        folders = self.folders._replace(exchange=sibling._open_exchange())
        self._siblings.append(sibling)
        sibling._full = self._full
        return folders

    def _dismiss(self, sibling: WarmSandbox) -> bool:
        """Whether the sibling is to be ended: False if it ended with this sandbox or never started."""
        if sibling not in self._siblings:
            return False
        self._siblings.remove(sibling)
        self._full = self._full or sibling._full  # the workspace is shared
        return True

    async def read(self, path: str, limit: int = 10_000_000) -> bytes:
        """See `Workspace.read`."""
        return await self._workspace.read_async(path, limit)

    async def write(self, path: str, data: bytes) -> None:
        """See `Workspace.write`. Raises `ToolError` if the workspace is over its size limit."""
        if await self._is_full():
            raise ToolError(f"{path}: {meter.too_large(self)}; remove files first")
        await self._workspace.write_async(path, data)
        meter.watch(self)

    async def provide(self, path: str, data: bytes) -> None:
        """See `Sandbox.provide`."""
        await self._skills.write_async(path, data)

    async def pack(self, limit: int) -> bytes:
        """See `Sandbox.pack`."""
        return await anyio.to_thread.run_sync(pack, self.folders.workspace, limit)

    async def unpack(self, data: bytes) -> None:
        """See `Sandbox.unpack`."""
        await anyio.to_thread.run_sync(unpack, data, self.folders.workspace, self.owner)
        meter.watch(self)

    async def exec(self, command: str, timeout: float = 180.0, workdir: str = "", fresh: bool = False) -> ExecResult:
        """See `Workspace.exec`. `workdir` applies to this command only; a killed command leaves no state.

        If the episode hit a limit, such as `memory_mb` or `disk_mb`, the last line of the output says so; if the
        background did, that of the next command that is not `fresh`. Raises `ToolError` for a command that bash cannot
        run, `SandboxError` if the sandbox has died.
        """
        async with self._lock:
            earlier: list[str] = []
            if fresh:  # what the agent's processes hit does not belong into a verifier's output
                earlier, self._notices = self._notices, []
            try:
                self._exchange.ask(command, workdir, fresh, full=await self._is_full())
                self.busy, self.since = True, time.monotonic()
                meter.watch(self)
                (status, *met), timed_out = await self._run(timeout, alone=fresh)
                if self._notices:  # the meter may have killed it before any output
                    self._exchange.touch()
                if self._exchange.output_bytes() > _SMALL_OUTPUT:
                    output = await anyio.to_thread.run_sync(self._exchange.answer, self.config.output_chars)
                else:
                    output = self._exchange.answer(self.config.output_chars)
                notices = [*(self._limit_notices[limit].format(config=self.config) for limit in met), *self._notices]
                self._notices = []
            except OSError as error:
                raise SandboxError(f"sandbox: {error}") from None
            finally:
                self.busy = False
                self._exchange.clear()
                self._notices = [*earlier, *self._notices]
        text = output.text
        if notices:
            text = "\n".join([*([text.removesuffix("\n")] if text else []), *notices, ""])
        return ExecResult(text, _TIMED_OUT if timed_out else int(status), timed_out, output.truncated)

    async def start(self, command: Sequence[str], environment: Mapping[str, str], workdir: str = "") -> SandboxProcess:
        """See `Sandbox.start`. Memory and process limits are those of commands, but see `Extras.address_space`."""
        async with self._lock:
            if self._ended:
                raise SandboxError("sandbox: it has ended")
            self._started += 1
            program = SandboxProcess(self.folders.exchange, self._started, self._send)
            self._programs = [each for each in self._programs if not each.ended]
            self._programs.append(program)
            loop, replies = asyncio.get_running_loop(), self._replies()
            loop.add_reader(replies, program.close)  # process 1 says nothing to a start: it has ended
            try:
                await program.begin(command, {**self._marks(), **environment}, workdir or self.workspace_path)
            finally:
                loop.remove_reader(replies)
        self.since = time.monotonic()
        meter.watch(self)
        return program

    @abstractmethod
    def _replies(self) -> int:
        """The descriptor from which replies of process 1 are read."""

    def _marks(self) -> Mapping[str, str]:
        """Variables by which the backend knows its processes."""
        return {}

    async def listen(self, port: int) -> socket.socket:
        """See `Sandbox.listen`."""
        return await listen_inside(self._network_of(), port)

    @abstractmethod
    def _network_of(self) -> int:
        """The host pid of a process in the sandbox's network. Raises `SandboxError` if the sandbox was killed."""

    def exceeded(self, notice: str, *, full: bool) -> None:
        """Called by the meter, from any thread: it killed what ran, or found the workspace `full`."""
        self._full = self._full or full
        for program in self._programs:
            program.exceeded(notice)
        if notice not in self._notices:
            self._notices.append(notice)

    async def _is_full(self) -> bool:
        if self._full:
            size = await anyio.to_thread.run_sync(self.disk_bytes)
            self._full = size > self.config.disk_mb << 20
        return self._full

    async def _be_ready(self) -> None:
        try:
            with anyio.fail_after(self._start_seconds):
                await self._ready()
        except TimeoutError:
            raise SandboxError(f"sandbox: not ready after {self._start_seconds:g} seconds") from None

    async def _ready(self) -> None:
        """Waits for the first line of process 1, which reports that it is ready."""
        await self._line()

    async def _run(self, timeout: float, *, alone: bool) -> tuple[list[str], bool]:
        """Runs the command in the exchange folder. Returns the reply of process 1, and whether the command had to be
        killed."""
        self._send(b"alone\n" if alone else b"\n")
        try:
            with anyio.move_on_after(timeout):
                return await self._line(), False
        except anyio.get_cancelled_exc_class():
            with suppress(SandboxError):
                await self._interrupt()
            raise
        return await self._interrupt(), True

    async def _interrupt(self) -> list[str]:
        """Kills the running command and returns the reply of process 1; kills the sandbox if that fails.

        Always runs to the end, even when cancelled: a status left unread would be taken for the next command's.
        """
        with anyio.move_on_after(self._kill_seconds, shield=True):
            while True:  # a signal that arrives just before the shell waits is lost
                await self._signal(signal.SIGUSR1)
                with anyio.move_on_after(0.2):
                    return await self._line()
        with anyio.CancelScope(shield=True):
            await self._signal(signal.SIGKILL)
        raise SandboxError("sandbox: a command could not be killed")
