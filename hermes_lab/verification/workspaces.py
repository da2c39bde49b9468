"""Workspaces kept as they stood when they were verified: `run.keep_workspaces`."""

from functools import partial
from pathlib import Path

import anyio.to_thread

from hermes_lab.kept import keep, read_kept
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
    return KeptWorkspace(await anyio.to_thread.run_sync(partial(keep, folder, data, ".tar.gz")), len(data))


def read_workspace(folder: Path, kept: KeptWorkspace) -> bytes:
    """The archive. Raises `StoreError` if it is missing or was changed."""
    return read_kept(folder, kept.file)
