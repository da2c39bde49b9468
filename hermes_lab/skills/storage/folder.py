"""Reads and changes a skill's folder on disk without following symbolic links, which anybody may have planted."""

import os
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, NamedTuple

from hermes_lab.durable import sync_folder
from hermes_lab.errors import ConfigError, ToolError
from hermes_lab.skills import format as skill_format
from hermes_lab.types import Skill

SKILL = "SKILL.md"
Files = Mapping[str, bytes]
"""The files of a skill's folder by path, including SKILL.md; empty if there is no skill."""

_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Reading(NamedTuple):
    """A skill as read from disk, under the name of its folder unless that is no valid name.

    `stamps` are the ctimes (ns) of its folder (`""`) and of everything below, each taken before the content was read;
    while they are unchanged, so is the skill.
    """

    skill: Skill
    stamps: dict[str, int]


def files_of(skill: Skill | None) -> Files:
    """Returns the files of a skill. Raises `ToolError` for a name or path that escapes its folder."""
    if skill is None:
        return {}
    skill_format.check_name(skill.name)
    for path in skill.files:
        skill_format.check_path(path)
    return {SKILL: skill.text.encode(), **skill.files}


def skill_folders(root: Path) -> list[Path]:
    """Returns the folders in `root` with a SKILL.md, by name, except hidden ones."""
    return [path for path in sorted(root.iterdir()) if path.name[0] != "." and os.path.lexists(path / SKILL)]


def read_skill(folder: Path, *, own_name: bool = False) -> Reading:
    """Reads a skill's folder. Its name is that of the folder, or with `own_name` the one that the skill gives itself.

    Raises `ConfigError` naming the invalid file; symbolic links are invalid.
    """
    files: dict[str, bytes] = {}
    stamps: dict[str, int] = {}
    try:
        _read_into(files, stamps, folder, "", None)
        if SKILL not in files:
            raise ToolError("is not there")
        text, by_folder = _text(files.pop(SKILL)), not own_name and skill_format.slug(folder.name) == folder.name
        skill = skill_format.read(text, files, name=folder.name if by_folder else "", folder=folder.name)
    except ToolError as error:
        raise ConfigError(f"{folder / SKILL}: {str(error).removeprefix(f'{SKILL}: ')}") from None
    except OSError as error:
        problem = "symbolic links are not followed" if Path(error.filename).is_symlink() else error.strerror
        raise ConfigError(f"{error.filename}: cannot be read: {problem}") from None
    return Reading(skill, stamps)


class Transfer:
    """A change to skill folders in `root`, given as the files of each folder before and after.

    The constructor does everything that needs disk space: it writes the new files to `scratch`. `carry_out` only
    renames and removes files.
    """

    def __init__(self, root: Path, scratch: Path, changes: Mapping[str, tuple[Files, Files]]) -> None:
        self._root = root
        self._changes = changes
        self._staged = {
            (name, path): write_synced(scratch, data)
            for name, (before, after) in changes.items()
            for path, data in after.items()
            if before.get(path) != data
        }
        folders = [_parts(name, path)[:-1] for name, path in self._staged]
        try:
            for folder in folders:
                # If a file still occupies the path of a folder, the folder is created once the file is removed.
                with suppress(NotADirectoryError), _folder(root, folder, make=True):
                    pass
        except OSError:
            _drop_empty(root, folders)
            raise

    def carry_out(self) -> None:
        """Changes every file that still has its old content. Other files were just written by the user and are kept.

        This is idempotent: it may be repeated, also by another process after a crash.
        """
        for name, (before, after) in self._changes.items():
            gone = [path for path in before if path not in after]
            # SKILL.md is removed first and created last, so that readers only see complete skills.
            for path in sorted(gone, key=lambda path: path != SKILL):
                self._remove(name, path, before[path])
            _drop_empty(self._root, [_parts(name, path)[:-1] for path in gone])
            for path in sorted(after, key=lambda path: path == SKILL):
                if staged := self._staged.get((name, path)):
                    self._put(name, path, staged, before.get(path))
        self._sync()

    def _sync(self) -> None:
        both = ((name, path) for name, files in self._changes.items() for path in (*files[0], *files[1]))
        folders = {tuple(_parts(name, path)[:-1]) for name, path in both}
        # A folder's own entry is stored in its parent.
        for folder in {parts[:depth] for parts in folders for depth in range(1, len(parts) + 1)}:
            with suppress(FileNotFoundError, NotADirectoryError), _folder(self._root, folder) as descriptor:
                os.fsync(descriptor)
        sync_folder(self._root)

    def _remove(self, name: str, path: str, old: bytes) -> None:
        *folder, last = _parts(name, path)
        with suppress(FileNotFoundError, NotADirectoryError), _folder(self._root, folder) as descriptor:
            if _read(descriptor, last) == old:
                os.unlink(last, dir_fd=descriptor)

    def _put(self, name: str, path: str, staged: Path, old: bytes | None) -> None:
        *folder, last = _parts(name, path)
        with _folder(self._root, folder, make=True) as descriptor:
            if _read(descriptor, last) == old:
                os.rename(staged, last, dst_dir_fd=descriptor)


def write_synced(folder: Path, data: bytes) -> Path:
    """Writes a new file in `folder` and syncs it to disk."""
    descriptor, path = tempfile.mkstemp(dir=folder)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, 0o644)
        file.write(data)
        file.flush()
        os.fsync(descriptor)
    return Path(path)


def _read_into(files: dict[str, bytes], stamps: dict[str, int], root: Path, at: str, parent: int | None) -> None:
    """Recursively reads the path `at` below `root`; its parent folder is open as the descriptor `parent`."""
    where = root / at
    try:
        descriptor = os.open(where if parent is None else where.name, _OPEN, dir_fd=parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(where)) from None
    try:
        status = os.fstat(descriptor)
        stamps[at] = status.st_ctime_ns
        if stat.S_ISDIR(status.st_mode):
            with os.scandir(descriptor) as entries:
                names = sorted(entry.name for entry in entries if not skill_format.ignored(entry.name))
            for path in (f"{at}/{name}" if at else name for name in names):
                if path != SKILL:
                    skill_format.check_path(path)
                with suppress(FileNotFoundError):  # an editor's temporary file, removed meanwhile
                    _read_into(files, stamps, root, path, descriptor)
        elif stat.S_ISREG(status.st_mode) and status.st_size <= skill_format.MAX_FILE:
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                files[at] = file.read()
        else:
            raise ConfigError(f"{where}: not a regular file of at most {skill_format.MAX_FILE >> 20} MiB")
    finally:
        os.close(descriptor)


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ToolError(f"line {line}: holds what is no text in UTF-8; save it as such") from None


def _parts(name: str, path: str) -> list[str]:
    return [name, *path.split("/")]


@contextmanager
def _folder(root: Path, parts: Sequence[str], *, make: bool = False) -> Iterator[int]:
    """Opens a folder below `root` part by part, so that no link is followed."""
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts:
            if make and not _exists(descriptor, part):
                os.mkdir(part, dir_fd=descriptor)
            parent = descriptor
            descriptor = os.open(part, _OPEN | os.O_DIRECTORY, dir_fd=parent)
            os.close(parent)
        yield descriptor
    finally:
        os.close(descriptor)


def _exists(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _read(folder: int, name: str) -> bytes | Literal["no file"] | None:
    """Reads a file in an open folder; None if it does not exist."""
    try:
        descriptor = os.open(name, _OPEN, dir_fd=folder)
    except FileNotFoundError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return "no file"
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(descriptor)


def _drop_empty(root: Path, folders: Sequence[Sequence[str]]) -> None:
    """Removes the empty ones among these folders and their parents."""
    paths = {tuple(parts[:depth]) for parts in folders for depth in range(1, len(parts) + 1)}
    for *parent, last in sorted(paths, key=len, reverse=True):
        with suppress(OSError), _folder(root, parent) as descriptor:
            os.rmdir(last, dir_fd=descriptor)
