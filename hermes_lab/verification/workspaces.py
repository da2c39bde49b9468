"""Workspaces kept as they stood when they were verified: `run.keep_workspaces`."""

import hashlib
import os
import secrets
from pathlib import Path

import anyio.to_thread

from hermes_lab.errors import StoreError
from hermes_lab.protocols import Sandbox
from hermes_lab.sandbox.archive import TooDeep, TooLarge
from hermes_lab.types import KeptWorkspace

FOLDER = "workspaces"
"""In the run folder. An archive is named by its sha256, so a rerun episode overwrites none."""


async def keep_workspace(sandbox: Sandbox, folder: Path, megabytes: float) -> KeptWorkspace:
    """Archives the workspace in `folder`. One that is too large or unreadable is not kept, with the reason.

    Raises `StoreError` if the archive cannot be written.
    """
    try:
        data = await sandbox.pack(int(megabytes * 1e6))
    except TooLarge:
        return KeptWorkspace(problem=f"larger than run.workspace_mb={megabytes:g}")
    except TooDeep:
        return KeptWorkspace(problem="nested too deeply")
    except OSError as error:
        return KeptWorkspace(problem=f"{error.filename}: {error.strerror}")
    name = f"{hashlib.sha256(data).hexdigest()}.tar.gz"
    try:
        await anyio.to_thread.run_sync(_write, folder / name, data)
    except OSError as error:
        raise StoreError(f"{error.filename}: {error.strerror}") from None
    return KeptWorkspace(name, len(data))


def _write(path: Path, data: bytes) -> None:
    """Writes an archive once: several episodes may leave the same workspace at the same time."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def read_workspace(folder: Path, kept: KeptWorkspace) -> bytes:
    """The archive. Raises `StoreError` if it is missing or was changed."""
    path = folder / kept.file
    try:
        data = path.read_bytes()
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}") from None
    if f"{hashlib.sha256(data).hexdigest()}.tar.gz" != kept.file:
        raise StoreError(f"{path}: was changed since the run wrote it")
    return data
