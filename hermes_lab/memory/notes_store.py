"""The notes of a Hermes home: two files that many processes write, with the history of who wrote what."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
from filelock import FileLock, Timeout

from hermes_lab.config.schema import MemoryConfig
from hermes_lab.durable import append_synced, sync_folder
from hermes_lab.errors import ConfigError, InfraError, ToolError
from hermes_lab.memory.notes import FILES, Notes, NotesEdit, apply, parse_file, render_file
from hermes_lab.types.memory import MemoryWrite
from hermes_lab.types.skill import Origin

_LARGEST = 1 << 20
_WAIT = 60.0
_OURS = ".notes"
_SAVING = "saving-"
_PRIVATE = 0o600


class NotesStore:
    """`MEMORY.md` and `USER.md` of a folder. What is the store's own lies in its hidden `.notes/`: the lock, and
    `history.jsonl`, a line a write.

    A write holds the lock from reading to writing, so nothing is lost; a file is replaced whole, so nothing is torn.
    The line of the history is written first, and its line break last: a line without one tells the next who comes of
    a crash, and the notes tell whether the write was made. A file that is not UTF-8 is read as far as it can be, and
    never written.
    """

    def __init__(self, home: Path, config: MemoryConfig) -> None:
        self._home = home
        self._config = config
        self._history = home / _OURS / "history.jsonl"

    def load(self) -> Notes:
        """The notes as they are. Raises `ConfigError` naming the file that cannot be read."""
        memory, user = (parse_file(_read(self._home / name).decode(errors="replace")) for name in FILES.values())
        return Notes(memory, user)

    def commit(self, edit: NotesEdit, origin: Origin, *, episode: str, model: str) -> tuple[Notes, MemoryWrite | None]:
        """Does an edit to the newest notes. Raises `ToolError` as `notes.apply` does, and `InfraError` where the disk
        fails."""
        try:
            with self._locked():
                before = self._settled()
                after, write = apply(before, edit, config=self._config, origin=origin, episode=episode, model=model)
                if write is not None:
                    _check_text(self._home / FILES[edit.target])
                    append_synced(self._history, msgspec.json.encode(write), _PRIVATE)
                    _replace(self._home / FILES[edit.target], render_file(after.of(edit.target)) + "\n")
                    append_synced(self._history, b"\n", _PRIVATE)
                return after, write
        except OSError as error:
            raise InfraError(f"notes in {self._home}: {error.strerror}") from error

    def history(self) -> list[MemoryWrite]:
        """Every write that was made, the oldest first."""
        if not self._history.exists():
            return []
        with self._locked():
            self._settled()
            return [msgspec.json.decode(line, type=MemoryWrite) for line in self._history.read_bytes().splitlines()]

    def _settled(self) -> Notes:
        """The notes, once the history's last line is finished, or taken back, where a crash came between."""
        notes = self.load()
        rest = _unfinished(self._history)
        if rest:
            for left in (self._home / _OURS).glob(f"{_SAVING}*"):
                left.unlink()
        if rest and _was_made(rest, notes):
            append_synced(self._history, b"\n", _PRIVATE)
        elif rest:
            os.truncate(self._history, self._history.stat().st_size - len(rest))
        return notes

    @contextmanager
    def _locked(self) -> Iterator[None]:
        (self._home / _OURS).mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(self._home / _OURS / "lock", timeout=_WAIT, poll_interval=0.005):
                yield
        except Timeout:
            raise ToolError("the notes are busy; try again later") from None


def _unfinished(path: Path) -> bytes:
    """What stands after the last line break of a file."""
    if not path.exists():
        return b""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        length = 1
        while length < end:
            file.seek(end - length)
            if b"\n" in (tail := file.read()):
                return tail.rpartition(b"\n")[2]
            length *= 1_024
        file.seek(0)
        return file.read().rpartition(b"\n")[2]


def _was_made(line: bytes, notes: Notes) -> bool:
    """Whether the write of a line without its end came about: then its entry is there, or gone. A person may have
    edited the notes since."""
    try:
        write = msgspec.json.decode(line, type=MemoryWrite)
    except (msgspec.DecodeError, RecursionError):
        return False  # the line itself is torn, and was written before anything else
    entries = notes.of(write.target)
    done = write.text in entries if write.text else write.old not in entries
    return notes.snapshot == write.after or (notes.snapshot != write.before and done)


def _check_text(path: Path) -> None:
    """Raises `ToolError` for a file that, read and written again, would lose what somebody wrote."""
    try:
        _read(path).decode()
    except UnicodeDecodeError as error:
        raise ToolError(
            f"{path.name} is not UTF-8 (byte {error.start + 1:,}), so nothing is written to it; ask the user to save "
            "it as UTF-8"
        ) from None


def _read(path: Path) -> bytes:
    """What a file holds, nothing where there is none; no link is followed."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}; it must be an ordinary file") from None
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise ConfigError(f"{path}: larger than {_LARGEST >> 20} MiB, which notes never are; shorten it")
    return data


def _replace(path: Path, text: str) -> None:
    """The whole new file or the old one, also after a crash of the machine."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent / _OURS, prefix=_SAVING)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(descriptor)
        Path(temporary).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(temporary).unlink()
        raise
    sync_folder(path.parent)
