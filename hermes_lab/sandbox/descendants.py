"""The descendants of a process, as seen by the host."""

import os
from contextlib import suppress


def children(pid: int) -> list[int]:
    """The host pids of a process's children; empty if it is gone."""
    found: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
            with suppress(OSError), open(f"/proc/{pid}/task/{thread}/children", "rb", buffering=0) as file:  # noqa: PTH123
                found += map(int, file.read(1 << 20).split())
    return found


def descendants(pid: int) -> list[int]:
    """All descendants of a process. Within a pid namespace none can escape its process 1."""
    found = children(pid)
    for inner in found:  # grows during the loop
        found += children(inner)
    return found
