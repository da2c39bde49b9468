"""The notes of a Hermes home: two files shared by many processes, with a history of all writes."""

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
    """`MEMORY.md` and `USER.md` in a folder. The hidden `.notes/` has the lock and `history.jsonl`, one line per write.

    A write holds the lock while reading and writing, so no update is lost; files are replaced atomically. The history
    line is written before the notes, and its line break after them: a line without one reveals a crash, and the notes
    show whether the write took effect. A file that is not UTF-8 is read as far as possible and never written.
    """

    def __init__(self, home: Path, config: MemoryConfig) -> None:
        self._home = home
        self._config = config
        self._history = home / _OURS / "history.jsonl"

    def load(self) -> Notes:
        """The current notes. Raises `ConfigError` naming a file that cannot be read."""
        memory, user = (parse_file(_read(self._home / name).decode(errors="replace")) for name in FILES.values())
        return Notes(memory, user)

    def commit(self, edit: NotesEdit, origin: Origin, *, episode: str, model: str) -> tuple[Notes, MemoryWrite | None]:
        """Applies an edit to the newest notes. Raises `ToolError` as `notes.apply`, and `InfraError` if the disk
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
        """All writes, oldest first."""
        if not self._history.exists():
            return []
        with self._locked():
            self._settled()
            return [msgspec.json.decode(line, type=MemoryWrite) for line in self._history.read_bytes().splitlines()]

    def _settled(self) -> Notes:
        """The notes, after completing or removing an unfinished history line left by a crash."""
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
    """The text after a file's last line break."""
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
    """Whether an unfinished write took effect: its entry is present, or gone if it was removed. The user may have
    edited the notes since."""
    try:
        write = msgspec.json.decode(line, type=MemoryWrite)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False  # the line itself is torn, so nothing after it was written
    entries = notes.of(write.target)
    done = write.text in entries if write.text else write.old not in entries
    return notes.snapshot == write.after or (notes.snapshot != write.before and done)


def _check_text(path: Path) -> None:
    """Raises `ToolError` for a file that would lose content when rewritten."""
    try:
        _read(path).decode()
    except UnicodeDecodeError as error:
        raise ToolError(
            f"{path.name} is not UTF-8 (byte {error.start + 1:,}), so nothing is written to it; ask the user to save "
            "it as UTF-8"
        ) from None


def _read(path: Path) -> bytes:
    """The content of a file, "" if missing; links are not followed."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}; it must be a regular file") from None
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise ConfigError(f"{path}: larger than {_LARGEST >> 20} MiB, too large for notes; shorten it")
    return data


def _replace(path: Path, text: str) -> None:
    """Replaces a file atomically, even if the machine crashes."""
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
