"""The memory that a training can still get on this machine."""

from collections.abc import Iterator
from pathlib import Path

_MEMINFO = Path("/proc/meminfo")
_OWN_GROUPS = Path("/proc/self/cgroup")
_GROUPS = Path("/sys/fs/cgroup")


def free_memory() -> float:
    """Bytes that programs can still get: of the machine, or of the control groups of this process if that is less."""
    return min([_free_on_machine(), *_free_in_groups()])


def free_gpu_memory(context: float) -> float:
    """Bytes of the first GPU that are free. What CUDA's own context takes (`context`) counts as free, since a plan
    counts it as needed."""
    import torch

    free, total = torch.cuda.mem_get_info(0)
    return float(min(total, free + context))


def _free_on_machine() -> float:
    try:
        lines = dict(line.split(":", 1) for line in _MEMINFO.read_text().splitlines())
        return float(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, ValueError, KeyError):
        return float("inf")


def _free_in_groups() -> Iterator[float]:
    """What each control group above this process has left, of version 1 or 2. Those without a limit are left out."""
    try:
        lines = _OWN_GROUPS.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            root, names = _GROUPS, ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            root, names = _GROUPS / "memory", ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        folder = root / path.strip("/")
        # In a container the path may be that on the host; its own group is then the root.
        for each in [folder, *folder.parents]:
            if each == root or root in each.parents:
                yield from _left(each, *names)


def _left(folder: Path, limit: str, usage: str, cache: str) -> Iterator[float]:
    """The limit of a control group less what it uses; a file cache that is no longer read does not count as used."""
    try:
        stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        most, used = int((folder / limit).read_text()), int((folder / usage).read_text())
        yield float(most - used + int(stat.get(cache, 0)))
    except (OSError, ValueError):  # a version 2 group without a limit has the word `max`
        return
