"""Starts a process cheaply from a large one, as another user where this one is root.

`subprocess.Popen(user=...)` copies the page tables of the whole harness (it must not use vfork), and closes
descriptors one by one: at thousands of sandboxes each start would stall the event loop.
"""

import ctypes
import os
import platform
import signal
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

# The system calls setgroups, setresgid and setresuid, which change one thread where glibc's functions change them all.
_CREDENTIALS = {"x86_64": (116, 119, 117), "aarch64": (159, 149, 147)}
_UNCHANGED_SIGNALS = (signal.SIGPIPE, signal.SIGXFSZ)  # which Python ignores


class Piped(NamedTuple):
    """A process, and the ends of the pipes at its stdin and at its stdout with stderr."""

    pid: int
    stdin: int
    stdout: int


def spawn(
    command: list[str], environment: Mapping[str, str], inherited: Iterable[int] = (), owner: int | None = None
) -> Piped:
    """Starts `command`, the leader of a new session, with the `inherited` descriptors besides its pipes.

    `owner` is the uid and gid that it takes on in place of root's. The calling thread takes them on for as long as it
    needs to start a process, which the kernel then shields from every other process of that uid. Raises `OSError`.
    """
    stdin, ours_in = os.pipe()
    ours_out, stdout = os.pipe()
    moves = [(os.POSIX_SPAWN_DUP2, stdin, 0), (os.POSIX_SPAWN_DUP2, stdout, 1), (os.POSIX_SPAWN_DUP2, stdout, 2)]
    moves += [(os.POSIX_SPAWN_DUP2, fd, fd) for fd in inherited]
    try:
        with _as_user(owner):
            pid = os.posix_spawn(
                command[0],
                command,
                environment,
                file_actions=moves,
                setsid=True,
                setsigdef=_UNCHANGED_SIGNALS,
                setsigmask=(),  # a worker of a cluster blocks SIGINT
            )
    except BaseException:
        os.close(ours_in)
        os.close(ours_out)
        raise
    finally:
        os.close(stdin)
        os.close(stdout)
    return Piped(pid, ours_in, ours_out)


@contextmanager
def _as_user(uid: int | None) -> Iterator[None]:
    """Root's thread as another user; the saved ids, which a started program does not get, lead back."""
    if uid is None:
        yield
        return
    groups = os.getgroups()
    setgroups, setresgid, setresuid = _CREDENTIALS[platform.machine()]
    try:
        _call(setgroups, 0, None)
        _call(setresgid, uid, uid, 0)
        _call(setresuid, uid, uid, 0)
        yield
    finally:
        _call(setresuid, 0, 0, 0)
        _call(setresgid, 0, 0, 0)
        _call(setgroups, len(groups), (ctypes.c_uint32 * len(groups))(*groups))


_libc = ctypes.CDLL(None, use_errno=True)


def _call(number: int, *arguments: object) -> None:
    if _libc.syscall(number, *arguments) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
