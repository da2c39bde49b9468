"""What lies in a folder of the workspace: kinds, modes, links and sizes, as `find` tells them."""

import shlex
from collections.abc import Iterable
from typing import NamedTuple

from hermes_lab.protocols import Workspace

SECONDS = 20.0
_FORM = r"%y\0%m\0%n\0%D:%i\0%s\0%l\0%p\0"
_FIELDS = 7


class Node(NamedTuple):
    """One entry of a tree; nothing is followed to tell it."""

    kind: str
    """`f`, `d`, `l`, or another letter of find(1)."""
    mode: str
    """Octal and without zeros in front: `644`, `4755`."""
    links: int
    inode: str
    """The same for all names of one file."""
    size: int
    target: str
    """Where a link points."""


async def survey(workspace: Workspace, paths: Iterable[str]) -> dict[str, Node]:
    """Everything at and below `paths`, by path; nothing at all where it is too much to be told.

    The command begins in the workspace with the first environment and while processes of the agent stand still; the
    program and all that it loads are the system's, so no file of the workspace has a say in it.
    """
    where = " ".join(map(shlex.quote, paths))
    told = await workspace.exec(f"/usr/bin/find {where} -printf '{_FORM}' 2>/dev/null", SECONDS, fresh=True)
    fields = told.output.split("\0")
    if told.timed_out or told.truncated or len(fields) % _FIELDS != 1:
        return {}
    found = {}
    for first in range(0, len(fields) - 1, _FIELDS):
        kind, mode, links, inode, size, target, path = fields[first : first + _FIELDS]
        found[path] = Node(kind, mode, int(links), inode, int(size), target)
    return found
