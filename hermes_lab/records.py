"""The episode log, one JSON line per episode and append-only, and other small files of a run."""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol, TypeVar

import anyio
import anyio.to_thread
import msgspec

from hermes_lab.errors import ConfigError
from hermes_lab.types import Episode
from hermes_lab.types.episode import VERSION, EpisodeKey


class _Record(Protocol):
    @property
    def v(self) -> int: ...


R = TypeVar("R", bound=_Record)

_decoder = msgspec.json.Decoder(Episode)
_key_decoder = msgspec.json.Decoder(EpisodeKey)
_encoder = msgspec.json.Encoder()
_BUFFER = 1 << 20  # bytes; lines have about 10 kB, so Python's default of 8 kB makes reading three times slower
_FILE = re.compile(r"(?P<worker>[\w.]+)-(?P<n>\d+)\.jsonl")


class EpisodeLog:
    """Appends episodes durably to a log file: `append` returns once the line is on disk.

    Every process start opens a new file `episodes/<worker>-<n>.jsonl`, so that nothing is appended to a line torn by a
    crash. Episodes that finish during an fsync share the next one.
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
        """Appends one episode. Once a write has failed, this and every later call raises its `OSError`."""
        self._pending.append(_encoded(episode) + b"\n")
        self._queued += 1
        mine = self._queued
        async with self._lock:
            if self._written >= mine:
                return
            lines, self._pending = self._pending, []
            await anyio.to_thread.run_sync(self._write, b"".join(lines))
            self._written += len(lines)

    def _write(self, data: bytes) -> None:
        if self._failure:  # a line after a torn one would be unreadable too
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
        """Closes the file, and removes it if empty."""
        os.close(self._fd)
        if self.path.stat().st_size == 0:
            self.path.unlink()


def _encoded(episode: Episode) -> bytes:
    try:
        return _encoder.encode(episode)
    except UnicodeEncodeError:  # a lone surrogate, such as in a file name that is not UTF-8: it is written as `\udcff`
        return _encoder.encode(_encodable(msgspec.to_builtins(episode)))


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, dict):
        return {_encodable(key): _encodable(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_encodable(each) for each in value]
    return value


def episode_files(run: Path) -> list[Path]:
    """The log files of a run, ordered by start within each worker."""
    files = [
        (m["worker"], int(m["n"]), p) for p in (run / "episodes").glob("*.jsonl") if (m := _FILE.fullmatch(p.name))
    ]
    return [path for _, _, path in sorted(files)]


def files_of(run: Path, worker: str) -> list[Path]:
    """The log files of one worker, ordered by start."""
    return [path for path in episode_files(run) if path.name.rpartition("-")[0] == worker]


def read_episodes(run: Path) -> Iterator[Episode]:
    """Yields every episode of a run once, the last record of each key, in the order written.

    A torn last line of a file is skipped: that episode is still pending. Raises `ConfigError` with file and line for
    any other invalid line. Memory grows with the number of keys, not with the size of episodes.
    """
    last: dict[tuple[str | int, ...], tuple[Path, int]] = {}
    for path, number, line in _lines(episode_files(run)):
        key = _decode(_key_decoder, line, path, number)
        last[(key.suite, key.task_id, key.lane, key.round, key.sample)] = (path, number)
    wanted = set(last.values())
    for path, number, line in _lines(episode_files(run)):
        if (path, number) in wanted:
            yield _decode(_decoder, line, path, number)


def read_attempts(run: Path, kind: type[R], worker: str = "") -> Iterator[R]:
    """Yields all records of a run, or of one worker of it, including superseded ones, as `Episode` or a struct with a
    subset of its fields."""
    decoder = msgspec.json.Decoder(kind)
    for path, number, line in _lines(files_of(run, worker) if worker else episode_files(run)):
        yield _decode(decoder, line, path, number)


def _lines(files: Iterable[Path]) -> Iterator[tuple[Path, int, bytes]]:
    for path in files:
        with path.open("rb", buffering=_BUFFER) as file:
            for number, line in enumerate(file, 1):
                if line.endswith(b"\n"):
                    yield path, number, line


def _decode(decoder: msgspec.json.Decoder[R], line: bytes, path: Path, number: int) -> R:
    return decode_record(decoder, line, f"{path}:{number}", "an episode", VERSION)


def decode_record(decoder: msgspec.json.Decoder[R], line: bytes, where: str, kind: str, latest: int) -> R:
    """The record in a line. Raises `ConfigError` if it is not of that `kind`, or of a version newer than `latest`."""
    try:
        if not line.isascii():
            line.decode()  # a decoder skips the fields that its type lacks, whatever they hold
        record = decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{where}: not {kind}: {error}") from None
    if record.v > latest:
        raise ConfigError(
            f"{where}: record version {record.v} is newer than {latest}, the latest supported one; update Hermes Lab"
        )
    return record


def write_atomic(path: Path, data: bytes | str) -> None:
    """Writes a file atomically: a synced temporary file in the same folder, then a rename."""
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
    """Writes indented JSON atomically."""
    write_atomic(path, msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n")
