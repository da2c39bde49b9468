"""Writes that survive a crash of the machine."""

import os
from pathlib import Path


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
