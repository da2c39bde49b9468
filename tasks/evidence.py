"""Safe reading of a workspace by verifiers: from outside the sandbox, without following links, for any content."""

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from hermes_lab.errors import ToolError
from hermes_lab.protocols import ExecResult, Workspace
from hermes_lab.tasks.family import Criterion, criterion

LARGEST = 1_000_000
"""Maximum bytes of a file to verify."""


async def read_bytes(workspace: Workspace, path: str, limit: int = LARGEST) -> bytes | None:
    """A regular file's bytes; None if it is missing, a link, or longer than `limit`."""
    try:
        return await workspace.read(path, limit=limit)
    except ToolError:
        return None


async def read_text(workspace: Workspace, path: str, limit: int = LARGEST) -> str | None:
    """Like `read_bytes`, decoded as UTF-8; also None if it is not valid UTF-8."""
    data = await read_bytes(workspace, path, limit)
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return None


async def read_json(workspace: Workspace, path: str, limit: int = LARGEST) -> Any:
    """The value of a JSON file; None if it is not valid JSON or has a duplicate key."""
    text = await read_text(workspace, path, limit)
    try:
        return None if text is None else json.loads(text, object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError):
        return None


def is_number(value: object) -> bool:
    """Whether `value` is a finite number and not a boolean."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


async def inputs_untouched(workspace: Workspace, files: Mapping[str, str], paths: Iterable[str]) -> Criterion:
    """Whether all `paths` still have their content in `files`. A missing file or a link counts as changed."""
    changed = [path for path in paths if await read_bytes(workspace, path) != files[path].encode()]
    return criterion("inputs_untouched", not changed, f"{' and '.join(sorted(changed))} must not be changed")


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("duplicate key")
    return found


class Rooted:
    """A folder of a workspace, used as a workspace."""

    def __init__(self, workspace: Workspace, folder: str) -> None:
        self._workspace = workspace
        self._folder = folder

    async def read(self, path: str, limit: int = 10_000_000) -> bytes:
        """See `Workspace.read`."""
        return await self._workspace.read(f"{self._folder}/{path}", limit)

    async def write(self, path: str, data: bytes) -> None:
        """See `Workspace.write`."""
        await self._workspace.write(f"{self._folder}/{path}", data)

    async def exec(self, command: str, timeout: float = 180.0, workdir: str = "", fresh: bool = False) -> ExecResult:
        """See `Workspace.exec`. Runs in the folder."""
        inside = f"{self._folder}/{workdir}" if workdir else self._folder
        return await self._workspace.exec(command, timeout, inside, fresh)
