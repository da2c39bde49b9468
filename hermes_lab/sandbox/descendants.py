"""Who is below a process, as the host sees it."""

import os
from contextlib import suppress


def children(pid: int) -> list[int]:
    """The host's pids of a process's children; none where it is gone."""
    found: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
            with suppress(OSError), open(f"/proc/{pid}/task/{thread}/children", "rb", buffering=0) as file:  # noqa: PTH123
                found += map(int, file.read(1 << 20).split())
    return found


def descendants(pid: int) -> list[int]:
    """All below a process: in a pid namespace no process leaves its process 1."""
    found = children(pid)
    for inner in found:  # grows on the way
        found += children(inner)
    return found
