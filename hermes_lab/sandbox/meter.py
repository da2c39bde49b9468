"""Enforces limits that rlimits cannot express: the total memory of an episode's processes, and its workspace size.

One thread per harness checks every quarter of a second those episodes in which a command or background process has been
running that long. It sleeps if there are none, and uses at most a twentieth of a core by checking less often.
"""

from __future__ import annotations

import os
import signal
import stat
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from hermes_lab.sandbox.folders import EpisodeFolders

if TYPE_CHECKING:
    from hermes_lab.config.sandboxes import SandboxConfig

_PERIOD = 0.25  # seconds
_SHORT_COMMANDS = 1.0  # seconds between checks of a sandbox that has only short commands
_SHARE = 20
_SLACK = (
    1 << 20
)  # bytes by which a full workspace may still grow, so that clean-up commands are not killed for a small file
_DEEPEST = 256
TOO_DEEP = 1 << 62
"""The size of folders that are nested too deep to be measured, larger than any limit."""
_LEAST_FILE = 4096  # bytes: even an empty file takes space
_PAGE = os.sysconf("SC_PAGE_SIZE")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Metered(Protocol):
    """A sandbox as seen by the meter, whose thread calls all of these."""

    @property
    def config(self) -> SandboxConfig: ...

    @property
    def folders(self) -> EpisodeFolders: ...

    @property
    def busy(self) -> bool:
        """Whether a command is running."""
        ...

    @property
    def since(self) -> float:
        """When the last command began, by `time.monotonic`."""
        ...

    def processes(self) -> Sequence[int]:
        """The host pids of the episode's processes, without process 1."""
        ...

    def disk_bytes(self) -> int:
        """Disk usage of everything the episode can write to."""
        ...

    def scratch_bytes(self) -> int:
        """The size of in-memory folders."""
        ...

    def exceeded(self, notice: str, *, full: bool) -> None:
        """Called after a kill, or when the workspace is `full`."""
        ...


class _Watch:
    """A watched sandbox, the workspace size when it was last found full (shrinking is allowed), and the time of the
    last check, so that sandboxes with only short commands are checked now and then too."""

    def __init__(self, sandbox: Metered) -> None:
        self.sandbox = sandbox
        self.full_at = -_SLACK
        self.seen = time.monotonic()

    def is_due(self) -> bool:
        now = time.monotonic()
        return now - self.sandbox.since >= _PERIOD or now - self.seen >= _SHORT_COMMANDS


class Meter:
    """The metering thread; it starts with the first sandbox to watch."""

    def __init__(self) -> None:
        self._watches: dict[int, _Watch] = {}
        self._kept: dict[int, _Watch] = {}
        self._killing = threading.Lock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(self, sandbox: Metered) -> None:
        """Something begins in `sandbox`; takes a microsecond."""
        key = id(sandbox)
        if key not in self._watches:
            self._watches[key] = self._kept.setdefault(key, _Watch(sandbox))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, daemon=True, name="sandbox-meter")
                self._thread.start()
        if not self._wake.is_set():
            self._wake.set()

    def forget(self, sandbox: Metered) -> None:
        """`sandbox` is about to end: from now on the meter sends it no signals."""
        with self._killing:
            self._watches.pop(id(sandbox), None)
            self._kept.pop(id(sandbox), None)

    def _run(self) -> None:
        while True:
            if not self._watches:
                self._wake.clear()
                if not self._watches:  # a sandbox added meanwhile has set it, or will
                    self._wake.wait()
            started = time.thread_time()
            for key, watch in tuple(self._watches.items()):
                if watch.is_due():
                    with suppress(OSError):  # the process ended meanwhile
                        self._visit(key, watch)
            time.sleep(max(_PERIOD, _SHARE * (time.thread_time() - started)))

    def _visit(self, key: int, watch: _Watch) -> None:
        sandbox, config = watch.sandbox, watch.sandbox.config
        watch.seen = time.monotonic()
        began, pids = sandbox.since, sandbox.processes()
        if pids and memory_bytes(pids, sandbox.scratch_bytes(), config.memory_mb << 20) > config.memory_mb << 20:
            notice = f"[killed: its processes and /tmp take more than {config.memory_mb} MB of memory]"
            self._kill(key, sandbox, notice, full=False)
        size = sandbox.disk_bytes() + _unlinked_bytes(pids, sandbox.folders.workspace)
        if size <= config.disk_mb << 20:
            watch.full_at = -_SLACK
        elif size > watch.full_at + _SLACK:
            watch.full_at = size
            self._kill(key, sandbox, f"[killed: {too_large(sandbox)}]", full=True)
        if not pids and not sandbox.busy:
            self._watches.pop(key, None)
            if sandbox.busy or sandbox.since != began:  # a new command began meanwhile
                self._watches[key] = watch

    def _kill(self, key: int, sandbox: Metered, notice: str, *, full: bool) -> None:
        with self._killing:
            if key not in self._watches:
                return
            sandbox.exceeded(notice, full=full)
            began = sandbox.since
            for _ in range(20):  # repeated, since it may fork meanwhile
                pids = sandbox.processes()
                if not pids or sandbox.since != began:  # do not blame the next command
                    return
                _kill_all(pids, sandbox)
                time.sleep(0.002)


_meter = Meter()
watch, forget = _meter.watch, _meter.forget


def too_large(sandbox: Metered) -> str:
    """The message for a full workspace, with which a home counts."""
    what = "the workspace and the home are" if sandbox.folders.home else "the workspace is"
    return f"{what} larger than {sandbox.config.disk_mb} MB"


def memory_bytes(pids: Sequence[int], scratch: int, limit: int) -> int:
    """Memory that the processes hold, plus `scratch`.

    Shared memory is first counted for every process, which is cheap; only if that exceeds `limit` is it divided among
    them.
    """
    total = scratch + sum(map(_resident, pids))
    return total if total <= limit else scratch + sum(map(_proportional, pids))


def _resident(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", "rb", buffering=0) as file:  # noqa: PTH123
            return int(file.read(200).split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


def _proportional(pid: int) -> int:
    """Proportional set size without files; if the kernel does not permit that, the resident size without files."""
    for name, fields in (("smaps_rollup", (b"Pss_Anon:", b"Pss_Shmem:")), ("status", (b"RssAnon:", b"RssShmem:"))):
        try:
            lines = Path(f"/proc/{pid}/{name}").read_bytes().splitlines()
        except OSError:
            continue
        return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith(fields))
    return 0


class _TooDeep(Exception):
    """Folders nested deeper than the measurement can hold open."""


def workspace_bytes(folder: Path) -> int:
    """Disk usage of a folder; links are not followed. Folders nested too deeply count as larger than any limit."""
    try:
        return _tree_bytes(os.open(folder, _FOLDER), 0)
    except _TooDeep:
        return TOO_DEEP
    except OSError:
        return 0


def _tree_bytes(fd: int, depth: int) -> int:
    if depth > _DEEPEST:
        os.close(fd)
        raise _TooDeep
    total = _LEAST_FILE
    try:
        with os.scandir(fd) as entries:
            for entry in entries:
                with suppress(OSError):  # it was removed meanwhile
                    if entry.is_dir(follow_symlinks=False):
                        total += _tree_bytes(os.open(entry.name, _FOLDER, dir_fd=fd), depth + 1)
                    else:
                        total += max(entry.stat(follow_symlinks=False).st_blocks * 512, _LEAST_FILE)
    finally:
        os.close(fd)
    return total


class _File(NamedTuple):
    device: int
    inode: int


def _unlinked_bytes(pids: Sequence[int], folder: Path) -> int:
    """The size of deleted files that a process still holds open."""
    device, sizes = folder.stat().st_dev, dict[_File, int]()
    for pid in pids:
        with suppress(OSError):  # it ended, or may not be inspected
            for name in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208
                with suppress(OSError):
                    status = Path(f"/proc/{pid}/fd/{name}").stat()
                    if status.st_nlink == 0 and status.st_dev == device and stat.S_ISREG(status.st_mode):
                        sizes[_File(status.st_dev, status.st_ino)] = status.st_blocks * 512
    return sum(sizes.values())


def _kill_all(pids: Sequence[int], sandbox: Metered) -> None:
    """Kills by pidfds opened while the processes existed, as a pid may be reused.

    All are stopped first: a shell that outlives its children for an instant would report them as killed.
    """
    descriptors: dict[int, int] = {}
    try:
        for pid in pids:
            with suppress(OSError):
                descriptors[pid] = os.pidfd_open(pid)
        alive = [descriptors[pid] for pid in sandbox.processes() if pid in descriptors]
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for descriptor in alive:
                with suppress(OSError):
                    signal.pidfd_send_signal(descriptor, number)
    finally:
        for fd in descriptors.values():
            os.close(fd)
