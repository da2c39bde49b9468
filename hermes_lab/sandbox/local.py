"""The local backend, without isolation: commands run as the current user in a temporary folder."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio

from hermes_lab.errors import ConfigError, SandboxError
from hermes_lab.sandbox.extras import NOTHING_MORE, Extras
from hermes_lab.sandbox.network import listen_here
from hermes_lab.sandbox.piped import PipedSandbox, gone
from hermes_lab.sandbox.shell import session
from hermes_lab.sandbox.spawn import Piped, spawn

if TYPE_CHECKING:
    from hermes_lab.config.sandboxes import Promise, SandboxConfig

_ESCAPES = "a process that clears its environment (env -i) outlives the episode and escapes all limits"
UNKEPT: Mapping[Promise, str] = {
    "isolation": "no isolation: the agent's commands run as your user, with access to your files, processes and the "
    "network",
    "no_network": "commands have the network of this machine",
    "verifier": "commands run as the same user as the verifier's, and could interfere with them",
    "memory": _ESCAPES,
    "disk": _ESCAPES,
    "processes": "no limit on the number of processes, and /tmp is shared with the machine",
    "no_orphans": "if the harness is killed with SIGKILL, the agent's processes keep running",
}
"""The promises that `local` does not keep."""

_MARK = "HERMES_LAB_SESSION"
_KEPT = ("PATH", "LANG", "LC_ALL", "USER", "LOGNAME", "TMPDIR", "VIRTUAL_ENV")
_PASSES = 200
_ENVIRONMENT = slice(47, 49)  # fields of /proc/PID/stat after the name: start and end address of the environment


class LocalSandbox(PipedSandbox):
    """A warm bash in the episode's folder, which relative paths refer to.

    Every process carries its session in an environment variable, by which all of them, even setsid orphans, are found
    and killed at the end. Raises `ConfigError` without `allow_local`.
    """

    def __init__(self, config: SandboxConfig, extras: Extras = NOTHING_MORE) -> None:
        if not config.allow_local:
            raise ConfigError(
                "sandbox.backend: local runs the agent's commands as you, with your files and network; "
                "to allow that set sandbox.allow_local=true, otherwise use sandbox.backend=bubblewrap"
            )
        super().__init__(config, extras)

    @property
    def owner(self) -> int | None:
        """Commands run as the harness's user."""
        return None

    @property
    def workspace_path(self) -> str:
        """The folder itself."""
        return str(self.folders.workspace)

    @property
    def skills_path(self) -> str:
        """The folder itself, which commands can write to."""
        return str(self.folders.skills)

    @property
    def home_path(self) -> str:
        """The folder itself."""
        return str(self.folders.home)

    async def listen(self, port: int) -> socket.socket:
        """See `Sandbox.listen`. Any process of this machine can reach it, at a port of its own."""
        del port
        return listen_here(0)

    def _network_of(self) -> int:
        return os.getpid()

    def _marks(self) -> Mapping[str, str]:
        return {_MARK: self._mark}

    def process_1(self) -> int | None:
        """The shell itself, a child of the harness."""
        return self._piped.pid if self._piped else None

    def processes(self) -> Sequence[int]:
        """See `WarmSandbox.processes`."""
        return [pid for pid in _marked(self._mark) if pid != self.process_1()]

    def scratch_bytes(self) -> int:
        """/tmp is not the episode's own."""
        return 0

    @property
    def _mark(self) -> str:
        """An identifier that no other session has, even with the same workspace or exchange folder."""
        return f"{self.workspace_path}:{self.folders.exchange.name}"

    def _launch(self) -> Piped:
        inherited = {name: os.environ[name] for name in _KEPT if name in os.environ}
        environment: Mapping[str, str] = inherited | {"HOME": self.workspace_path, _MARK: self._mark}
        exchange = os.open(self.folders.exchange, os.O_RDONLY | os.O_DIRECTORY)
        try:
            arguments = session(exchange, self.config, processes="hard", address_space=self.extras.address_space)
            started = spawn(["/bin/bash", *arguments], environment, [exchange])
        except OSError as error:
            raise SandboxError(f"sandbox: /bin/bash cannot be started: {error.strerror}") from None
        finally:
            os.close(exchange)
        _sessions[str(started.pid)] = self._mark
        return started

    async def _run(self, timeout: float, *, alone: bool) -> tuple[list[str], bool]:
        """As in `WarmSandbox`, but the shell must not stop `all` processes: they include the machine's."""
        frozen: list[int] = []
        if alone:
            for _ in range(_PASSES):  # repeated, since they may fork meanwhile
                if not (moving := [pid for pid in self.processes() if pid not in frozen]):
                    break
                _send(moving, signal.SIGSTOP)
                frozen += moving
        try:
            return await super()._run(timeout, alone=False)
        finally:
            _send(frozen, signal.SIGCONT)

    async def _kill(self, started: Piped) -> None:
        os.kill(started.pid, signal.SIGKILL)
        await gone(started.pid)
        self._piped = None
        for _ in range(_PASSES):  # repeated, since they may fork meanwhile
            if not (left := self.processes()):
                return
            _send(left, signal.SIGKILL)
            await anyio.sleep(0.002)


def _send(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


_sessions: dict[str, str] = {}
"""Cache of the session of each entry of /proc ("" for none), as it never changes while the process lives."""


def _marked(session: str) -> list[int]:
    """The live processes of a session, without zombies."""
    alive = set(os.listdir("/proc"))  # noqa: PTH208
    for name in _sessions.keys() - alive:
        _sessions.pop(name, None)
    for name in alive - _sessions.keys():
        _sessions[name] = _mark_of(name)
    pids = [int(name) for name in alive if _sessions.get(name) == session]
    return [pid for pid in pids if not _is_dead(pid)]


def _mark_of(pid: str) -> str:
    start = f"{_MARK}=".encode()
    try:
        marks = [entry for entry in _environment(pid).split(b"\0") if entry.startswith(start)]
    except OSError:  # another user's process, or gone
        return ""
    return os.fsdecode(marks[0].removeprefix(start)) if marks else ""


def _environment(pid: str) -> bytes:
    """A process's environment; appears empty during an exec."""
    for _ in range(_PASSES):
        with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:  # noqa: PTH123
            environment = file.read(1 << 20)
        if environment or _has_none(pid):
            break
        time.sleep(0.0005)
    return environment


def _has_none(pid: str) -> bool:
    """Whether a process certainly has no environment: a kernel thread, a dead process, or one started without."""
    try:
        os.readlink(f"/proc/{pid}/exe")  # noqa: PTH115
    except OSError:
        return True
    with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:  # noqa: PTH123
        begin, end = file.read(4096).rpartition(b")")[2].split()[_ENVIRONMENT]
    return begin == end != b"0"


def _is_dead(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:  # noqa: PTH123
            return file.read(4096).rpartition(b")")[2].split()[0] in (b"Z", b"X")
    except OSError:
        return True
