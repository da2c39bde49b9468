"""A workspace as a compressed archive, and back. Links are kept as links and never followed."""

import gzip
import io
import os
import stat
import tarfile
from pathlib import Path, PurePosixPath

from hermes_lab.errors import SandboxError

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC  # so that a FIFO does not block
_LEVEL = 6
_DEEPEST = 100
"""Levels of folders; each takes a descriptor."""
_ENTRY = tarfile.BLOCKSIZE
"""Bytes that a file, folder or link counts besides its content, so that a million empty ones are too many."""


class TooLarge(Exception):
    """The workspace has more bytes than may be kept."""


class TooDeep(Exception):
    """The workspace has folders that are nested too deeply."""


def pack(root: Path, limit: int) -> bytes:
    """A gzipped tar of folders, regular files and links below `root`, with modes and times of change.

    The same content gives the same bytes. Sockets, FIFOs and devices are left out. Raises `TooLarge` for more than
    `limit` bytes, `TooDeep`, and `OSError` for a file that cannot be read. Blocks.
    """
    packed = io.BytesIO()
    left = limit
    # Every name is opened in its folder's descriptor, so that no process inside can lead out of the workspace.
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=_LEVEL, mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path, folders, files, folder in os.fwalk(root, follow_symlinks=False, onerror=_raise):
            folders.sort()
            below = PurePosixPath(os.path.relpath(path, root))
            if len(below.parts) > _DEEPEST:
                raise TooDeep
            for name in sorted([*folders, *files]):
                if (left := left - _ENTRY) < 0:
                    raise TooLarge
                status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                info = _info(str(below / name), status)
                if stat.S_ISLNK(status.st_mode):
                    info.type, info.linkname = tarfile.SYMTYPE, os.readlink(name, dir_fd=folder)
                    archive.addfile(info)
                elif stat.S_ISDIR(status.st_mode):
                    info.type = tarfile.DIRTYPE
                    archive.addfile(info)
                elif stat.S_ISREG(status.st_mode):
                    data = _read(name, folder, left)
                    left -= len(data)
                    info.size = len(data)
                    archive.addfile(info, io.BytesIO(data))
    return packed.getvalue()


def unpack(data: bytes, root: Path, owner: int | None) -> None:
    """Writes an archive of `pack` into the empty folder `root`, for `owner` (uid and gid) if given.

    Raises `SandboxError` for an archive that leads out of the folder. Blocks. No process may run in the workspace yet.
    """
    folders: list[tuple[Path, tarfile.TarInfo]] = []
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
        for info in archive:
            path = _inside(root, info.name)
            if info.isdir():
                path.mkdir(0o700)
                folders.append((path, info))
            elif info.issym():
                path.symlink_to(info.linkname)
            elif info.isreg():
                content = archive.extractfile(info)
                assert content is not None
                with path.open("xb") as file:
                    file.write(content.read())
                path.chmod(info.mode)
                os.utime(path, (info.mtime, info.mtime))
            if owner is not None:
                os.chown(path, owner, owner, follow_symlinks=False)
    for path, info in reversed(folders):  # last: a folder may be read-only, and writing into it changes its time
        path.chmod(info.mode)
        os.utime(path, (info.mtime, info.mtime))


def _info(name: str, status: os.stat_result) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.mode, info.mtime = stat.S_IMODE(status.st_mode) & 0o777, status.st_mtime
    return info


def _read(name: str, folder: int, limit: int) -> bytes:
    fd = os.open(name, _READ, dir_fd=folder)
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):  # changed since
            return b""
        data = file.read(limit + 1)
    if len(data) > limit:
        raise TooLarge
    return data


def _inside(root: Path, name: str) -> Path:
    parts = PurePosixPath(name).parts
    path = root.joinpath(*parts)
    leaves = not parts or ".." in parts or name.startswith("/")
    if leaves or path.parent.resolve() != root.resolve().joinpath(*parts[:-1]):
        raise SandboxError(f"a kept workspace leads out of its folder: {name!r}")
    return path


def _raise(error: OSError) -> None:
    raise error
