"""Writes that survive a crash of the machine, and folders that one process writes at a time."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from hermes_lab.errors import ConfigError

_LOCK = ".lock"


def append_synced(path: Path, data: bytes, mode: int) -> None:
    """Appends to a file, created with `mode` if missing; on return both content and directory entry are on disk."""
    is_new = not path.exists()
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, mode)
    try:
        with memoryview(data) as rest:
            while rest:
                rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    if is_new:
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Fsyncs a directory."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_files(folder: Path) -> None:
    """Fsyncs all files and directories below a folder, and itself."""
    for path in [*folder.rglob("*"), folder]:
        if path.is_dir():
            sync_folder(path)
        else:
            with path.open("rb") as file:
                os.fsync(file.fileno())


def hold_folder(folder: Path, field: str) -> AbstractContextManager[None]:
    """Creates the folder and locks it against other processes; the lock is released even if the process is killed.

    Raises `ConfigError` if another process holds it, or, naming the configuration's `field`, if it cannot be written.
    """
    return hold(
        folder / _LOCK,
        held=f"{folder}: another process is running it",
        unwritable=f"{field}: {folder} cannot be written",
    )


@contextmanager
def hold(lock: Path, *, held: str, unwritable: str) -> Iterator[None]:
    """Creates and locks a file, and its folder if needed; the lock is released even if the process is killed.

    Raises `ConfigError` with the message `held` if another process has the lock, or `unwritable` and the cause if the
    file cannot be created. It also raises it if the file system has no locks.
    """
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        file = lock.open("w")
    except OSError as error:
        raise ConfigError(f"{unwritable}: {error.strerror}") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(held) from None
        except OSError as error:  # some network and FUSE file systems
            why = error.strerror or error
            raise ConfigError(
                f"{lock}: this file system cannot lock files ({why}); use a folder on another disk, or mount it with "
                "support for flock"
            ) from None
        yield
