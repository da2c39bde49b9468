"""Leases: files by which a harness knows which of the harnesses of this machine are dead.

A hosted sandbox carries the name of its harness's lease. A lease is locked while its harness lives; one that is there
and not locked belongs to a dead harness of this user on this machine, whose sandboxes may be ended. The sandboxes of
harnesses elsewhere, which have no lease here, never are.
"""

import fcntl
import os
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

_SUFFIX = ".lease"


def _folder(service: str) -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "hermes-lab" / "leases" / service


class Lease:
    """A lease of this process with `service`, a name for a service and an account there; for files, so no slashes."""

    def __init__(self, service: str) -> None:
        self.name = uuid.uuid4().hex
        folder = _folder(service)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path = folder / f"{self.name}{_SUFFIX}"
        hidden = folder / f".{self.name}"
        self._lock = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)  # before others see it; held until this process ends in any way
        hidden.rename(self._path)

    def close(self, *, keep: bool = False) -> None:
        """Ends the lease. `keep`: leaves it to the next harness, since sandboxes may be left."""
        if not keep:
            self._path.unlink(missing_ok=True)
        os.close(self._lock)


@contextmanager
def dead_leases(service: str) -> Iterator[list[tuple[str, Path]]]:
    """The leases of dead harnesses with `service`: each name, with the file to remove once its sandboxes are gone. No
    other harness has them meanwhile."""
    found = []
    with ExitStack() as stack:
        for path in sorted(_folder(service).glob(f"*{_SUFFIX}")):
            with suppress(OSError):  # it is locked, or another harness has just removed it
                lock = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
                stack.callback(os.close, lock)
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if path.exists():
                    found.append((path.name.removesuffix(_SUFFIX), path))
        yield found
