"""A workspace that outlives its sandbox: a folder of this machine, for chats (`sandbox.workspace`)."""

import fcntl
import hashlib
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import anyio.to_thread

from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.errors import ConfigError, SandboxError
from hermes_lab.sandbox.launch import owner
from hermes_lab.sandbox.meter import TOO_DEEP, workspace_bytes

_FIELD = "sandbox.workspace"
_OWN = ("skills", "chats", "reviews", "locks")
"""Folders of the Hermes home that are no workspace."""
_SYSTEM = tuple(
    map(Path, ["/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr"])
)


@asynccontextmanager
async def open_workspace(config: SandboxConfig, home: Path) -> AsyncIterator[Path | None]:
    """The folder of `sandbox.workspace`, created if it is missing; None without one.

    It is locked against other chats; a file in the Hermes `home` tells its owner. Where the harness runs as root, whose
    commands run as another user, its files are handed over to that user and given back at the end, or after a crash by
    the next chat. Raises `ConfigError` for a folder that cannot be a workspace.
    """
    if not config.workspace:
        yield None
        return
    folder = await anyio.to_thread.run_sync(_checked, config, home)
    with _locked(folder, home) as lock:
        user = owner() if config.backend != "local" else None
        try:
            if user is not None:
                await anyio.to_thread.run_sync(_hand_over, folder, user, lock)
            yield folder
        finally:
            if user is not None:
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(_give_back, folder, user, lock)


def _checked(config: SandboxConfig, home: Path) -> Path:
    try:
        folder, home = Path(config.workspace).expanduser().resolve(), home.resolve()
    except RuntimeError as error:  # `~nobody`, or a loop of links
        raise ConfigError(f"{_FIELD}: {config.workspace}: {error}") from None
    if why := _unfit(folder, home):
        raise ConfigError(f"{_FIELD}: {folder} {why}; give a folder of its own, such as ~/work")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise ConfigError(f"{_FIELD}: {folder} is not a folder") from None
    except OSError as error:
        raise ConfigError(f"{_FIELD}: {folder} cannot be created: {error.strerror}") from None
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise ConfigError(f"{_FIELD}: {folder} cannot be written by you")
    if (size := workspace_bytes(folder)) == TOO_DEEP:
        raise ConfigError(f"{_FIELD}: {folder}: its folders are nested too deep to be measured; give another folder")
    if size > config.disk_mb << 20:
        raise ConfigError(
            f"{_FIELD}: {folder} holds {size >> 20} MB, more than sandbox.disk_mb={config.disk_mb} allows; raise it, "
            "or give a smaller folder"
        )
    return folder


def _unfit(folder: Path, home: Path) -> str:
    """Why a folder holds more than work, or ""."""
    person = Path.home().resolve()
    if folder == person:
        return "is your home folder"
    if folder == Path("/") or any(folder.is_relative_to(system) for system in _SYSTEM):
        return "belongs to the system"
    if home.is_relative_to(folder) or any(folder.is_relative_to(home / name) for name in _OWN):
        return "belongs to the Hermes home"
    hidden = folder.is_relative_to(person) and folder.relative_to(person).parts[0].startswith(".")
    if person.is_relative_to(folder) or (hidden and not folder.is_relative_to(home)):
        return "holds settings"
    return ""


@contextmanager
def _locked(folder: Path, home: Path) -> Iterator[int]:
    """Locks the folder against chats in it, above it and below it, of any Hermes home. Yields a descriptor of the file
    that tells whose the folder is while its files are handed over."""
    with ExitStack() as opened:
        for each in (folder, *folder.parents):
            try:
                descriptor = os.open(each, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except OSError:  # a folder above, which this user may not read
                continue
            opened.callback(os.close, descriptor)
            try:
                fcntl.flock(descriptor, (fcntl.LOCK_EX if each == folder else fcntl.LOCK_SH) | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ConfigError(
                    f"{_FIELD}: another chat works in {each}, or below it; leave it first, or give another folder"
                ) from None
        yield opened.enter_context(_owner_file(folder, home))


@contextmanager
def _owner_file(folder: Path, home: Path) -> Iterator[int]:
    locks = home / "locks"
    locks.mkdir(parents=True, exist_ok=True)
    path = locks / f"workspace-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]}"
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield lock
    finally:
        os.close(lock)


def _hand_over(folder: Path, user: int, lock: int) -> None:
    """Gives everything to `user`, but for files with other names: those may stand outside of the folder."""
    if not os.pread(lock, 64, 0):  # else a chat was killed, and the file still tells whose the folder was
        status = folder.stat()
        os.pwrite(lock, f"{status.st_uid} {status.st_gid}".encode(), 0)
        os.fsync(lock)
    _own(folder, f"{user}:{user}", "(", "-type", "d", "-o", "-links", "1", ")")


def _give_back(folder: Path, user: int, lock: int) -> None:
    uid, gid = os.pread(lock, 64, 0).decode().split()
    _own(folder, f"{uid}:{gid}", "-uid", str(user))
    os.ftruncate(lock, 0)


def _own(folder: Path, owner: str, *which: str) -> None:
    """Changes the owner of those entries of a tree, however deep; links are not followed."""
    change = ["find", str(folder), "-xdev", *which, "-execdir", "chown", "-h", owner, "--", "{}", "+"]
    # Relative folders in PATH would make `find` refuse.
    done = subprocess.run(
        change, capture_output=True, text=True, errors="replace", env={"PATH": os.defpath}, check=False
    )
    if done.returncode:
        raise SandboxError(f"{_FIELD}: {folder}: its files cannot be handed over: {done.stderr.strip()[-300:]}")
