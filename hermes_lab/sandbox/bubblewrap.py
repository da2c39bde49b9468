"""A sandbox on bubblewrap: namespaces, a read-only system, one writable workspace, no network."""

import json
import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.to_thread

from hermes_lab.config import SandboxConfig
from hermes_lab.errors import SandboxError
from hermes_lab.protocols import ExecResult
from hermes_lab.sandbox import launch
from hermes_lab.sandbox.exchange import Exchange
from hermes_lab.sandbox.workspace import WorkspaceFolder

_START_SECONDS = 30.0
_KILL_SECONDS = 5.0
_TIMED_OUT = 124  # the exit code of timeout(1)
_SMALL_OUTPUT = 1_000_000


class BubblewrapSandbox:
    """One bwrap for a whole episode; a warm shell inside it starts every command as a process of its own.

    Commands run one after another. What a command leaves in the background lives on until the episode ends.
    """

    def __init__(self, config: SandboxConfig) -> None:
        self._config = config
        self._lock = anyio.Lock()

    async def __aenter__(self) -> "BubblewrapSandbox":
        self._process: subprocess.Popen[bytes] | None = None
        self._pidfd: int | None = None
        try:
            self._folder = launch.make_folder()
        except OSError as error:
            raise SandboxError(f"sandbox: no folder for the episode: {error}") from None
        try:
            await self._start()
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._end()

    async def read(self, path: str, limit: int = 10_000_000) -> bytes:
        """See `Workspace.read`."""
        return await anyio.to_thread.run_sync(self._workspace.read, path, limit)

    async def write(self, path: str, data: bytes) -> None:
        """See `Workspace.write`."""
        await anyio.to_thread.run_sync(self._workspace.write, path, data)

    async def exec(self, command: str, timeout: float = 180.0, workdir: str = "", fresh: bool = False) -> ExecResult:
        """See `Workspace.exec`. `workdir` is for this command alone; a killed command leaves no state.

        Raises `ToolError` for a command that bash cannot take, `SandboxError` where the sandbox has died.
        """
        async with self._lock:
            try:
                self._exchange.ask(command, workdir, fresh)
                status, timed_out = await self._run(timeout, alone=fresh)
                if self._exchange.output_bytes() > _SMALL_OUTPUT:
                    output = await anyio.to_thread.run_sync(self._exchange.answer, self._config.output_chars)
                else:
                    output = self._exchange.answer(self._config.output_chars)
            except OSError as error:
                raise SandboxError(f"sandbox: {error}") from None
            finally:
                self._exchange.clear()
        return ExecResult(output.text, _TIMED_OUT if timed_out else status, timed_out, output.truncated)

    async def _start(self) -> None:
        self._workspace = WorkspaceFolder(self._folder / "data", launch.owner())
        self._exchange = Exchange(self._folder / "exchange")
        self._process, info = launch.start(self._folder, self._config)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._commands, self._statuses = self._process.stdin.fileno(), self._process.stdout.fileno()
        try:
            with anyio.fail_after(_START_SECONDS):
                await self._line()
            self._pidfd = os.pidfd_open(json.loads(os.read(info, 4096))["child-pid"])
        except TimeoutError:
            raise SandboxError(f"sandbox: not ready after {_START_SECONDS:g} seconds") from None
        except OSError as error:
            raise SandboxError(f"sandbox: {error}") from None
        finally:
            os.close(info)

    async def _run(self, timeout: float, *, alone: bool) -> tuple[int, bool]:
        """Runs what lies in the exchange; the exit status, and whether the command had to be killed."""
        os.write(self._commands, b"alone\n" if alone else b"\n")
        try:
            with anyio.move_on_after(timeout):
                return int(await self._line()), False
        except anyio.get_cancelled_exc_class():
            with suppress(SandboxError):
                await self._interrupt()
            raise
        return await self._interrupt(), True

    async def _interrupt(self) -> int:
        """Kills the running command and gives its status. A sandbox that cannot do that is itself killed.

        Never left half done, even when cancelled: a status that nobody took would be the next command's.
        """
        with anyio.move_on_after(_KILL_SECONDS, shield=True):
            while True:  # a signal that comes just before the shell waits is lost on it
                self._signal(signal.SIGUSR1)
                with anyio.move_on_after(0.2):
                    return int(await self._line())
        self._signal(signal.SIGKILL)
        raise SandboxError("sandbox: a command could not be killed")

    async def _line(self) -> bytes:
        """The next line of process 1, which writes each with one call."""
        await anyio.wait_readable(self._statuses)
        if line := os.read(self._statuses, 64):
            return line
        started = self._pidfd is not None
        raise SandboxError("sandbox: it was killed" if started else launch.why_failed(self._folder))

    def _signal(self, number: signal.Signals) -> None:
        if self._pidfd is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)

    async def _end(self) -> None:
        """Kills process 1, and by that every process of its namespace; then removes the folder."""
        with anyio.CancelScope(shield=True):
            if self._pidfd is not None:
                self._signal(signal.SIGKILL)
                await anyio.wait_readable(self._pidfd)
                os.close(self._pidfd)
            await anyio.to_thread.run_sync(_remove, self._process, self._folder)


def _remove(process: subprocess.Popen[bytes] | None, folder: Path) -> None:
    if process is not None:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
    try:
        shutil.rmtree(folder)
    except (OSError, RecursionError):  # folders that were made unreadable, or nested without end
        script = 'chmod -R u+rwX -- "$0"; rm -rf -- "$0"'
        subprocess.run(["/bin/sh", "-c", script, str(folder)], check=False, stderr=subprocess.DEVNULL)
