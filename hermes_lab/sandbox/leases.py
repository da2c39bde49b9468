"""Leases: which sandboxes at a service belong to a harness of this user that still lives.

Sandboxes at a service carry the name of a lease. A lease is a file that its harness keeps locked; the kernel unlocks it
when the harness ends, however that came. The next harness finds the file unlocked, and ends what carries its name.
"""

import fcntl
import json
import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from platformdirs import user_state_dir

from hermes_lab.errors import ConfigError


class Lease:
    """A lease that this process holds. `name` is unique everywhere, and has letters, digits and `-` alone."""

    def __init__(self, path: Path, lock: int) -> None:
        self.name = path.name
        self._path = path
        self._lock = lock

    def close(self, *, left: bool) -> None:
        """Gives it up. With `left`, sandboxes may be left at the service, and the next harness ends them."""
        if not left:
            self._path.unlink(missing_ok=True)
        os.close(self._lock)


def take_lease(service: str, about: Mapping[str, str]) -> Lease:
    """A new lease. `about` says where at the service its sandboxes are. Raises `ConfigError` if there is no place for
    it."""
    folder = _folder(service)
    path = folder / uuid.uuid4().hex
    fresh = path.with_name(f".{path.name}")
    try:
        folder.mkdir(0o700, parents=True, exist_ok=True)
        lock = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        os.write(lock, json.dumps(dict(about)).encode())
        fcntl.flock(lock, fcntl.LOCK_EX)
        fresh.rename(path)  # only now do others see it
    except OSError as error:
        raise ConfigError(
            f"sandbox.backend: {folder}: {error.strerror}; set XDG_STATE_HOME to a folder that you can write to"
        ) from None
    return Lease(path, lock)


def dead_leases(service: str, about: Mapping[str, str]) -> Iterator[Lease]:
    """The leases of the same `about` whose harness has ended, each held by this process from now on. Where locks do not
    work, there are none."""
    folder = _folder(service)
    for name in sorted(os.listdir(folder)) if folder.is_dir() else ():  # noqa: PTH208
        if name.startswith("."):
            continue
        with suppress(OSError):
            lock = os.open(folder / name, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                same = os.read(lock, 1 << 16) == json.dumps(dict(about)).encode()
            except OSError:
                same = False
            if same:
                yield Lease(folder / name, lock)
            else:
                os.close(lock)


def _folder(service: str) -> Path:
    return Path(user_state_dir("hermes-lab")) / "leases" / service
