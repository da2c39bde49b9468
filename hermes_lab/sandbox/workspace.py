"""Access to a workspace from outside: the harness reads and writes the agent's files without following links."""

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

import anyio.to_thread

from hermes_lab.errors import SandboxError, ToolError

WORKSPACE = PurePosixPath("/app/data")
"""The workspace's path as seen by the agent; relative paths start here."""
SKILLS = PurePosixPath("/app/skills")
"""The path of files provided by the harness, read-only for commands."""
ROOTED_SKILLS = PurePosixPath("/opt/hermes-lab/provided")
"""As `SKILLS`, in a task with a root of its own, whose working directory may be /app."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC  # so that a FIFO does not block
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_SMALL = 1 << 18  # bytes up to which files are read or written in the event loop's thread
_LONGEST_PATH = 4096
_MOST_FILES = 10_000
_DEEPEST = 50
_HOST_FAILURES = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE, errno.EROFS}


class WorkspaceFolder:
    """The host folder `root`, which commands see at `seen`. Written files are owned by `owner` (uid and gid), if given.

    Every component of a path is opened relative to the previous one without following links, so concurrent changes
    inside cannot lead out of the folder. Calls block.
    """

    def __init__(self, root: Path, owner: int | None = None, seen: PurePosixPath = WORKSPACE) -> None:
        self._root = root
        self._seen = seen
        self._owner = owner

    def read(self, path: str, limit: int) -> bytes:
        """The bytes of a regular file. Raises `ToolError` if there is none, or if it is longer than `limit` bytes."""
        with self.opened(path) as fd:
            return _read_whole(path, fd, limit)

    async def read_async(self, path: str, limit: int) -> bytes:
        """As `read`, in a thread if the file is large; for a small one the thread would cost more than reading."""
        with self.opened(path) as fd:
            if os.fstat(fd).st_size <= _SMALL:
                return _read_whole(path, fd, limit)
            return await anyio.to_thread.run_sync(_read_whole, path, fd, limit)

    async def write_async(self, path: str, data: bytes) -> None:
        """As `write`, in a thread if there is much data."""
        if len(data) <= _SMALL:
            self.write(path, data)
        else:
            await anyio.to_thread.run_sync(self.write, path, data)

    def files(self, below: str = "") -> list[str]:
        """The regular files below a folder: see `hermes_lab.protocols.Home.files`."""
        found: list[str] = []
        with _explained(below):
            try:
                folder = self._folder(below)
            except FileNotFoundError:
                return found
            _list(folder, "", found)
        return sorted(found)

    def _folder(self, path: str) -> int:
        """A descriptor of a folder."""
        here = os.open(self._root, _FOLDER)
        for name in components(path, self._seen) if path else ():
            try:
                inner = os.open(name, _FOLDER, dir_fd=here)
            finally:
                os.close(here)
            here = inner
        return here

    @contextmanager
    def opened(self, path: str) -> Iterator[int]:
        """A descriptor of a regular file."""
        with _explained(path):
            with self._parent(path, make=False) as (folder, name):
                fd = os.open(name, _READ, dir_fd=folder)
            try:
                _check_regular(path, os.fstat(fd))
                yield fd
            finally:
                os.close(fd)

    def write(self, path: str, data: bytes) -> None:
        """Writes a file atomically, keeping the mode of an existing one.

        A new file is executable if it begins with `#!`.
        """
        with _explained(path), self._parent(path, make=True) as (folder, name):
            mode = _mode_of(path, name, folder, new=0o755 if data.startswith(b"#!") else 0o644)
            temporary = f".{secrets.token_hex(8)}.tmp"
            try:
                with os.fdopen(os.open(temporary, _CREATE, 0o600, dir_fd=folder), "wb") as file:
                    file.write(data)
                    self._hand_over(file.fileno())
                    os.fchmod(file.fileno(), mode)
                os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=folder)
                raise

    @contextmanager
    def _parent(self, path: str, *, make: bool) -> Iterator[tuple[int, str]]:
        """A descriptor of the parent folder of `path`, and the file's name."""
        *folders, name = components(path, self._seen)
        here = os.open(self._root, _FOLDER)
        try:
            for folder in folders:
                inner = self._enter(here, folder, make=make)
                os.close(here)
                here = inner
            yield here, name
        finally:
            os.close(here)

    def _enter(self, here: int, folder: str, *, make: bool) -> int:
        try:
            return os.open(folder, _FOLDER, dir_fd=here)
        except FileNotFoundError:
            if not make:
                raise
        os.mkdir(folder, 0o755, dir_fd=here)
        inner = os.open(folder, _FOLDER, dir_fd=here)
        self._hand_over(inner)
        return inner

    def _hand_over(self, fd: int) -> None:
        if self._owner is not None:
            os.fchown(fd, self._owner, self._owner)


def _list(folder: int, at: str, found: list[str], depth: int = 0) -> None:
    """Adds the regular files below an open folder, which is closed."""
    try:
        if depth > _DEEPEST:
            raise ToolError(f"{at}: folders are nested deeper than {_DEEPEST}")
        with os.scandir(folder) as entries:
            for entry in entries:
                path = f"{at}{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    with suppress(FileNotFoundError, NotADirectoryError):  # removed meanwhile
                        _list(os.open(entry.name, _FOLDER, dir_fd=folder), f"{path}/", found, depth + 1)
                elif entry.is_file(follow_symlinks=False):
                    found.append(path)
                if len(found) > _MOST_FILES:
                    raise ToolError(f"{at or 'the folder'}: more than {_MOST_FILES} files")
    finally:
        os.close(folder)


def components(path: str, below: PurePosixPath = WORKSPACE) -> tuple[str, ...]:
    """The parts of `path` below the workspace. Raises `ToolError` if it leaves the workspace or names no file."""
    try:
        encoded = os.fsencode(path)
    except UnicodeEncodeError:
        raise ToolError(f"{path!r}: not a valid file name") from None
    if len(encoded) > _LONGEST_PATH:
        raise ToolError(f"{path[:60]}...: longer than {_LONGEST_PATH} bytes")
    if b"\0" in encoded:
        raise ToolError(f"{path!r}: a path must not contain NUL")
    pure = PurePosixPath(path)
    if ".." in pure.parts:
        raise ToolError(f"{path}: `..` is not allowed; give a path below {below}")
    if pure.is_absolute():
        if not pure.is_relative_to(below):
            raise ToolError(f"{path}: outside the workspace; give a path below {below}")
        pure = pure.relative_to(below)
    if not pure.parts:
        raise ToolError(f"{path!r}: not a file")
    return pure.parts


@contextmanager
def _explained(path: str) -> Iterator[None]:
    """Turns a host failure into `SandboxError`, and any other into `ToolError` for the model."""
    try:
        yield
    except OSError as error:
        if error.errno in _HOST_FAILURES:
            raise SandboxError(f"workspace: {path}: {error.strerror}") from None
        if error.errno == errno.ELOOP:
            raise ToolError(f"{path}: symbolic links are not followed") from None
        if error.errno == errno.ENOTDIR:
            raise ToolError(f"{path}: part of the path is not a folder, or is a symbolic link") from None
        raise ToolError(f"{path}: {error.strerror}") from None


def _mode_of(path: str, name: str, folder: int, *, new: int) -> int:
    """The mode of the file to be replaced, or `new` if there is none."""
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return new
    _check_regular(path, status)
    return stat.S_IMODE(status.st_mode) & 0o777


def _check_regular(path: str, status: os.stat_result) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise ToolError(f"{path}: symbolic links are not followed")
    if stat.S_ISDIR(status.st_mode):
        raise ToolError(f"{path}: is a folder")
    if not stat.S_ISREG(status.st_mode):
        raise ToolError(f"{path}: not a regular file")


def _read_whole(path: str, fd: int, limit: int) -> bytes:
    data = _read_at_most(fd, limit + 1)
    if len(data) > limit:
        raise ToolError(f"{path}: longer than {limit} bytes")
    return data


def _read_at_most(fd: int, count: int) -> bytes:
    chunks = []
    while count > 0 and (chunk := os.read(fd, min(count, 1 << 20))):
        chunks.append(chunk)
        count -= len(chunk)
    return b"".join(chunks)
