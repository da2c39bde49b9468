"""Lists a folder of the workspace: the types, modes, links and sizes that `find` reports."""

import shlex
from collections.abc import Iterable
from typing import NamedTuple

from hermes_lab.protocols import Workspace

SECONDS = 20.0
_FORM = r"%y\0%m\0%n\0%D:%i\0%s\0%l\0%p\0"
_FIELDS = 7


class Node(NamedTuple):
    """One entry of a tree; links are not followed."""

    kind: str
    """`f`, `d`, `l`, or another letter of find(1)."""
    mode: str
    """Octal, without leading zeros: `644`, `4755`."""
    links: int
    inode: str
    """Device and inode: the same for all names of one file."""
    size: int
    target: str
    """The target of a symbolic link."""


async def survey(workspace: Workspace, paths: Iterable[str]) -> dict[str, Node]:
    """Everything at and below `paths`, by path; empty if the listing is too long or times out.

    The command runs in the initial environment while the agent's processes are stopped. It only uses the system's
    program and libraries, so no file in the workspace can affect it.
    """
    where = " ".join(map(shlex.quote, paths))
    listing = await workspace.exec(f"/usr/bin/find {where} -printf '{_FORM}' 2>/dev/null", SECONDS, fresh=True)
    fields = listing.output.split("\0")
    if listing.timed_out or listing.truncated or len(fields) % _FIELDS != 1:
        return {}
    found = {}
    for first in range(0, len(fields) - 1, _FIELDS):
        kind, mode, links, inode, size, target, path = fields[first : first + _FIELDS]
        found[path] = Node(kind, mode, int(links), inode, int(size), target)
    return found
