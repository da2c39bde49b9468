"""No isolation at all: the agent's commands run as you, on this machine, in a temporary folder."""

import os
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

import anyio

from hermes_lab.config.schema import SandboxConfig
from hermes_lab.errors import ConfigError, SandboxError
from hermes_lab.sandbox.piped import PipedSandbox, gone
from hermes_lab.sandbox.shell import session
from hermes_lab.sandbox.spawn import Piped, spawn

UNKEPT = (
    "no isolation: the agent's commands run as you, with your files, your processes and the network",
    "a process that drops its environment (env -i) outlives the episode and is in no limit",
    "where the harness is killed with -9, what the agent had running lives on",
    "no limit of processes, and /tmp is the machine's",
)
"""What `local` cannot keep."""

_MARK = "HERMES_LAB_SESSION"
_KEPT = ("PATH", "LANG", "LC_ALL", "USER", "LOGNAME", "TMPDIR", "VIRTUAL_ENV")
_PASSES = 200
_ENVIRONMENT = slice(47, 49)  # of the fields of /proc/PID/stat behind the name: where it begins and ends in memory


class LocalSandbox(PipedSandbox):
    """A warm bash in the episode's folder, which is where relative paths begin.

    Every process is told its session by its environment, and by that is found and killed at the end, a setsid orphan
    too. Raises `ConfigError` where `allow_local` is not given.
    """

    def __init__(self, config: SandboxConfig) -> None:
        if not config.allow_local:
            raise ConfigError(
                "sandbox.backend: local runs the agent's commands as you, with your files and network; "
                "allow that by sandbox.allow_local=true, or take bubblewrap"
            )
        super().__init__(config)

    @property
    def owner(self) -> int | None:
        """Commands run as the harness's user."""
        return None

    @property
    def seen_workspace(self) -> str:
        """Commands see the folder as it is."""
        return str(self.folders.workspace)

    @property
    def seen_skills(self) -> str:
        """Commands see the folder as it is, and can write to it."""
        return str(self.folders.skills)

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
        """What no other session has, neither one in the same workspace nor one with the same exchange folder."""
        return f"{self.seen_workspace}:{self.folders.exchange.name}"

    def _launch(self) -> Piped:
        inherited = {name: os.environ[name] for name in _KEPT if name in os.environ}
        environment: Mapping[str, str] = inherited | {"HOME": self.seen_workspace, _MARK: self._mark}
        exchange = os.open(self.folders.exchange, os.O_RDONLY | os.O_DIRECTORY)
        try:
            started = spawn(["/bin/bash", *session(exchange, self.config, processes="hard")], environment, [exchange])
        except OSError as error:
            raise SandboxError(f"sandbox: /bin/bash cannot be started: {error.strerror}") from None
        finally:
            os.close(exchange)
        _sessions[str(started.pid)] = self._mark
        return started

    async def _run(self, timeout: float, *, alone: bool) -> tuple[list[str], bool]:
        """The shell must not stop `all` processes here: they are the machine's."""
        frozen: list[int] = []
        if alone:
            for _ in range(_PASSES):  # while they fork
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
        for _ in range(_PASSES):  # while they fork
            if not (left := self.processes()):
                return
            _send(left, signal.SIGKILL)
            await anyio.sleep(0.002)


def _send(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


_sessions: dict[str, str] = {}
"""The session that each entry of /proc was seen to belong to, "" for none: it does not change as long as there is the
process, so that each is looked into once. Entries that are no process have no environment, and so belong to none."""


def _marked(session: str) -> list[int]:
    """The processes of a session, the dead that nobody has waited for left out."""
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
    except OSError:  # another user's, or gone
        return ""
    return os.fsdecode(marks[0].removeprefix(start)) if marks else ""


def _environment(pid: str) -> bytes:
    """What a process was told; one that begins another program at this moment seems to have been told nothing."""
    for _ in range(_PASSES):
        with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:  # noqa: PTH123
            environment = file.read(1 << 20)
        if environment or _has_none(pid):
            break
        time.sleep(0.0005)
    return environment


def _has_none(pid: str) -> bool:
    """Whether it has no environment for certain: it is the kernel's, or dead, or was started with an empty one."""
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
