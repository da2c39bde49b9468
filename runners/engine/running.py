"""`RUN/running/<process>.json`: what the episodes of a run are doing, for readers in other processes.

A timer replaces the file; it is removed when nothing runs. Nothing of a run depends on it.
"""

import os
import platform
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from math import inf
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec

from hermes_lab.activity import Activities, Running

FOLDER = "running"
PERIOD = 1.0
"""Seconds between two writes, at least."""
STALE = 15.0
"""Seconds without a sign of life after which a process counts as stopped."""
_SHARE = 0.02
"""Of a core, at most, that writing may take."""


class RunningFile(msgspec.Struct, frozen=True, kw_only=True):
    """The file. `host`, `pid` and `begun` identify the process that writes it; `at` is when it did, in seconds since
    1970."""

    v: int = 1
    host: str
    pid: int
    begun: str
    at: float
    episodes: Sequence[Running]

    def alive(self, now: float) -> bool:
        """Whether its process runs; on another machine only the time can tell, if its clock is right (`LifeSigns`)."""
        return abs(now - self.at) < STALE and (not self.here or _begun(self.pid) == self.begun)

    @property
    def here(self) -> bool:
        """Whether its process is one of this machine."""
        return self.host == _host()


class LifeSigns:
    """Tells for one reader of a run which processes run. The clock of another machine may be off, so a file from there
    counts by when it last changed on the reader's own clock; only the first look has to believe its time."""

    def __init__(self) -> None:
        self._changed: dict[tuple[str, int, str], tuple[float, float]] = {}

    def alive(self, file: RunningFile, now: float, ticks: float) -> bool:
        """Whether the process of a file runs. `now` is `time.time`, `ticks` is `time.monotonic`."""
        if file.here:
            return file.alive(now)
        key = (file.host, file.pid, file.begun)
        at, changed = self._changed.get(key, (file.at, ticks if file.alive(now) else -inf))
        if at != file.at:
            changed = ticks
        self._changed[key] = (file.at, changed)
        return ticks - changed < STALE


@asynccontextmanager
async def shown_running(run: Path, activities: Activities) -> AsyncIterator[None]:
    """Writes the file for the time of the block, which is that of the run's rollouts. The caller holds the run's lock,
    so files that are already there are of processes that were killed."""
    remove_running(run)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_write_often, run / FOLDER / f"{os.getpid()}.json", activities)
            yield
            tasks.cancel_scope.cancel()
    finally:
        remove_running(run)


def read_running(run: Path) -> list[RunningFile]:
    """The files of a run, whether their processes are alive or not. One that cannot be read is left out."""
    found = []
    for path in sorted((run / FOLDER).glob("*.json")):
        with suppress(OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            found.append(msgspec.json.decode(path.read_bytes(), type=RunningFile))
    return found


def remove_running(run: Path) -> None:
    """Removes the files and their folder."""
    with suppress(OSError):
        for path in (run / FOLDER).iterdir():
            path.unlink(missing_ok=True)
        (run / FOLDER).rmdir()


async def _write_often(path: Path, activities: Activities) -> None:
    own = anyio.CapacityLimiter(1)  # tools that block must not hold it up
    while True:
        seconds = await anyio.to_thread.run_sync(_write, path, activities, limiter=own)
        await anyio.sleep(min(max(PERIOD, seconds / _SHARE), STALE / 3))


def _write(path: Path, activities: Activities) -> float:
    """Writes the file, or removes it if nothing runs. Returns the processor time that it took."""
    started = time.thread_time()
    # A full disk, or a text that cannot be written, must not end the run: the next file may be right.
    with suppress(OSError, ValueError):
        if not (episodes := activities.now()):
            path.unlink(missing_ok=True)
            return 0.0
        pid = os.getpid()
        file = RunningFile(host=_host(), pid=pid, begun=_begun(pid), at=time.time(), episodes=episodes)
        path.parent.mkdir(exist_ok=True)
        temporary = path.with_suffix(".tmp")  # not synced: after a crash of the machine nothing runs
        temporary.write_bytes(msgspec.json.encode(file))
        temporary.replace(path)
    return time.thread_time() - started


def _host() -> str:
    """The machine and, in containers, the numbering of processes."""
    try:
        return f"{platform.node()} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return platform.node()


def _begun(pid: int) -> str:
    """When a process of this machine began, in the kernel's own unit; "" if there is none. Numbers are given again."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if state in "ZX" else fields[18]
