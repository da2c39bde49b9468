"""The episode log: one whole episode a line, written once, never rewritten; and the other small files of a run."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol, TypeVar

import anyio
import anyio.to_thread
import msgspec

from hermes_lab.errors import ConfigError
from hermes_lab.types import Episode
from hermes_lab.types.episode import VERSION


class _Record(Protocol):
    @property
    def v(self) -> int: ...


class _Key(msgspec.Struct):
    suite: str
    task_id: str
    lane: str
    round: int
    sample: int
    v: int = 1


R = TypeVar("R", bound=_Record)

_decoder = msgspec.json.Decoder(Episode)
_key_decoder = msgspec.json.Decoder(_Key)
_encoder = msgspec.json.Encoder()
_BUFFER = 1 << 20  # lines are of some 10 kB: with Python's own 8 kB, finding their ends takes three times as long
_FILE = re.compile(r"(?P<worker>[\w.]+)-(?P<n>\d+)\.jsonl")


class EpisodeLog:
    """Appends episodes to a file of its own, durably: `append` returns once the line is on the disk.

    Every start opens a new file `episodes/<worker>-<n>.jsonl`, so a line torn by a crash is never appended to. Episodes
    that finish while the disk is busy share the next fsync.
    """

    def __init__(self, run: Path, worker: str = "w0") -> None:
        folder = run / "episodes"
        folder.mkdir(parents=True, exist_ok=True)
        taken = [int(m["n"]) for p in folder.iterdir() if (m := _FILE.fullmatch(p.name)) and m["worker"] == worker]
        self.path = folder / f"{worker}-{max(taken, default=-1) + 1}.jsonl"
        self._fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        self._pending: list[bytes] = []
        self._failure: OSError | None = None
        self._written = 0
        self._queued = 0
        self._lock = anyio.Lock()

    async def append(self, episode: Episode) -> None:
        """Raises `OSError` where the disk does not take the line, and from then on."""
        self._pending.append(_encoder.encode(episode) + b"\n")
        self._queued += 1
        mine = self._queued
        async with self._lock:
            if self._written >= mine:
                return
            lines, self._pending = self._pending, []
            await anyio.to_thread.run_sync(self._write, b"".join(lines))
            self._written += len(lines)

    def _write(self, data: bytes) -> None:
        if self._failure:  # a line after one that was cut would be lost with it
            raise self._failure
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
            os.fsync(self._fd)
        except OSError as error:
            self._failure = OSError(error.errno, error.strerror, str(self.path))
            raise self._failure from None

    def close(self) -> None:
        """Closes the file; an empty one is removed."""
        os.close(self._fd)
        if self.path.stat().st_size == 0:
            self.path.unlink()


def episode_files(run: Path) -> list[Path]:
    """The log files of a run, oldest start first within each worker."""
    files = [
        (m["worker"], int(m["n"]), p) for p in (run / "episodes").glob("*.jsonl") if (m := _FILE.fullmatch(p.name))
    ]
    return [path for _, _, path in sorted(files)]


def read_episodes(run: Path) -> Iterator[Episode]:
    """Every episode of a run once: the last record of each key, in the order in which they were written.

    A torn last line of a file is owed again and left out. Raises `ConfigError` naming file and line for any other line
    that is no episode. Memory is that of the keys, not of the episodes.
    """
    last: dict[tuple[str | int, ...], tuple[Path, int]] = {}
    for path, number, line in _lines(run):
        key = _decode(_key_decoder, line, f"{path}:{number}")
        last[(key.suite, key.task_id, key.lane, key.round, key.sample)] = (path, number)
    wanted = set(last.values())
    for path, number, line in _lines(run):
        if (path, number) in wanted:
            yield _decode(_decoder, line, f"{path}:{number}")


def read_attempts(run: Path, kind: type[R]) -> Iterator[R]:
    """Every record of a run, superseded ones included, as an `Episode` or as a struct with some of its fields."""
    decoder = msgspec.json.Decoder(kind)
    for path, number, line in _lines(run):
        yield _decode(decoder, line, f"{path}:{number}")


def _lines(run: Path) -> Iterator[tuple[Path, int, bytes]]:
    for path in episode_files(run):
        with path.open("rb", buffering=_BUFFER) as file:
            for number, line in enumerate(file, 1):
                if line.endswith(b"\n"):
                    yield path, number, line


def _decode(decoder: msgspec.json.Decoder[R], line: bytes, where: str) -> R:
    try:
        record = decoder.decode(line)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ConfigError(f"{where}: not an episode: {error}") from None
    if record.v > VERSION:
        raise ConfigError(f"{where}: record version {record.v} is newer than this Hermes Lab reads ({VERSION})")
    return record


def write_atomic(path: Path, data: bytes | str) -> None:
    """Writes a whole file or nothing: a temporary file beside it, synced, then renamed over it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from None


def write_json(path: Path, content: Any) -> None:
    """`write_atomic` of indented JSON."""
    write_atomic(path, msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n")
