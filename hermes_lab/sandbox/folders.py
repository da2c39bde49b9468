"""Host folders of episodes: one folder per harness, locked while it lives, with one folder per episode.

A harness killed with SIGKILL leaves its folder behind unlocked; the next harness of the same user removes it.
"""

import atexit
import errno
import fcntl
import functools
import itertools
import os
import stat
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import anyio.to_thread

_PREFIX = "hermes-lab-"
_LOCK = "lock"
ROOT_LAYERS = ("upper", "work", "usr", "usr-work")
"""What overlays of / and /usr write to, each with the folder that the kernel needs beside it."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LOCKED = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FEW = 64  # files that are unlinked in the event loop's thread
_DEEP = 50  # levels that are removed in-process

_numbers = itertools.count(1)
_idle: dict[tuple[Path, int | None, str], list[Path]] = {}


class EpisodeFolders(NamedTuple):
    """The folders of an episode: its workspace, the session's exchange folder, the folder that commands see read-only
    at `SKILLS`, and the home of programs, if there is one. Exchange and skills are reused by later episodes. `root`
    holds what a task with a root of its own writes outside its workspace. A `persistent` workspace stays."""

    workspace: Path
    exchange: Path
    skills: Path
    home: Path | None = None
    root: Path | None = None
    persistent: bool = False


def open_folders(owner: int | None, *, home: bool = False, workspace: Path | None = None) -> EpisodeFolders:
    """Creates a workspace, unless one is given that stays, and a home if wanted, owned by `owner` (uid and gid) if
    given."""
    number, persistent = next(_numbers), workspace is not None
    workspace = workspace or _make(harness_folder(owner) / str(number), owner)
    own = _make(harness_folder(owner) / f"home-{number}", owner) if home else None
    return EpisodeFolders(workspace, open_exchange(owner), _open("skills", owner), own, persistent=persistent)


def open_root(owner: int | None) -> Path:
    """Creates the folder for what is written to the root, with a part for / and one for /usr."""
    root = _make(harness_folder(owner) / f"root-{next(_numbers)}", owner)
    for name in ROOT_LAYERS:
        _make(root / name, owner)
    return root


def open_exchange(owner: int | None) -> Path:
    """Creates or reuses an exchange folder, owned by `owner` if given.

    Reuse is safe, as no command can reach them. Creating thousands of small files per second would cost more than the
    rest of an episode.
    """
    return _open("exchange", owner)


async def close_folders(folders: EpisodeFolders, owner: int | None) -> None:
    """Removes the workspace, unless it is persistent, and the home. Every process of the episode must be gone."""
    close_exchange(folders.exchange, owner)
    if os.listdir(folders.skills):  # noqa: PTH208
        await anyio.to_thread.run_sync(remove_tree, folders.skills)
        _make(folders.skills, owner)
    _close("skills", folders.skills, owner)
    if folders.home:
        await anyio.to_thread.run_sync(remove_tree, folders.home)
    if folders.root is not None:
        await anyio.to_thread.run_sync(remove_tree, folders.root)
    if not folders.persistent and not _remove_few(folders.workspace):
        await anyio.to_thread.run_sync(remove_tree, folders.workspace)


def close_exchange(exchange: Path, owner: int | None) -> None:
    """Returns an exchange folder for reuse. Requires that every process of its session is gone."""
    _close("exchange", exchange, owner)


def _open(kind: str, owner: int | None) -> Path:
    """A folder that serves one episode after another."""
    harness = harness_folder(owner)
    idle = _idle.setdefault((harness, owner, kind), [])
    return idle.pop() if idle else _make(harness / f"{kind}-{next(_numbers)}", owner)


def _close(kind: str, folder: Path, owner: int | None) -> None:
    _idle[folder.parent, owner, kind].append(folder)


def _make(folder: Path, owner: int | None) -> Path:
    folder.mkdir(0o755)
    if owner is not None:
        os.chown(folder, owner, owner)
    return folder


def harness_folder(owner: int | None) -> Path:
    """This process's own folder, owned by `owner`. The first call also removes folders of dead harnesses."""
    return _harness_folder(Path(tempfile.gettempdir()), os.getpid(), owner)


@functools.cache
def _harness_folder(parent: Path, pid: int, owner: int | None) -> Path:
    threading.Thread(target=sweep, args=(parent,), daemon=True, name="sweep").start()
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
    lock = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)  # held until this process ends in any way
    (folder / ".lock").rename(folder / _LOCK)
    if owner is not None:
        os.chown(folder, owner, owner)
    atexit.register(_at_exit, folder, pid)
    return folder


def _at_exit(folder: Path, pid: int) -> None:
    if os.getpid() == pid:
        _remove_harness(folder)


def sweep(parent: Path) -> None:
    """Removes the folders of this user's dead harnesses. Several harnesses may sweep concurrently."""
    for folder in parent.glob(f"{_PREFIX}*"):
        # Others may put links into /tmp.
        with suppress(OSError), _opened(folder, _FOLDER) as inside, _opened(_LOCK, _LOCKED, inside) as lock:
            status = os.fstat(lock)
            if status.st_uid == os.geteuid() and stat.S_ISREG(status.st_mode):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove_harness(folder)


def _remove_harness(folder: Path) -> None:
    """Removes a harness's folder, the lock last: whoever is killed meanwhile leaves a folder that is swept later."""
    with suppress(OSError):  # if it is gone already
        for entry in folder.iterdir():
            if entry.name != _LOCK:
                remove_tree(entry)
    remove_tree(folder)


@contextmanager
def _opened(path: Path | str, flags: int, folder: int | None = None) -> Iterator[int]:
    """The descriptor of a path, relative to that of a folder if one is given."""
    fd = os.open(path, flags, dir_fd=folder)
    try:
        yield fd
    finally:
        os.close(fd)


def _remove_few(folder: Path) -> bool:
    """Removes a folder with a few files quickly. Otherwise returns False, with at most a part removed."""
    try:
        with os.scandir(folder) as entries:
            few = list(itertools.islice(entries, _FEW + 1))
        if len(few) > _FEW:
            return False
        for entry in few:
            os.unlink(entry.path)  # noqa: PTH108
        folder.rmdir()
    except OSError:  # such as a subfolder
        return False
    return True


def remove_tree(folder: Path) -> None:
    """Removes a folder, whatever it contains, without following links. Blocks."""
    try:
        _remove_shallow(folder, _DEEP)
    except OSError:  # unreadable or very deeply nested folders
        script = '[ -L "$0" ] || chmod -R u+rwX -- "$0"; rm -rf -- "$0"'
        subprocess.run(["/bin/sh", "-c", script, str(folder)], check=False, stderr=subprocess.DEVNULL)


def _remove_shallow(folder: Path | str, depth: int, parent: int | None = None) -> None:
    """Removes a folder nested at most `depth` deep, else raises: unlike `rm`, Python has a recursion limit."""
    if not depth:
        raise OSError(errno.ELOOP, "nested too deep", str(folder))
    with _opened(folder, _FOLDER, parent) as inside:
        with os.scandir(inside) as entries:
            below = list(entries)
        for entry in below:
            if entry.is_dir(follow_symlinks=False):
                _remove_shallow(entry.name, depth - 1, inside)
            else:
                os.unlink(entry.name, dir_fd=inside)
    os.rmdir(folder, dir_fd=parent)
