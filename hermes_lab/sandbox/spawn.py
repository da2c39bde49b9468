"""Starts a process cheaply from a large one, as another user if this one is root.

`subprocess.Popen(user=...)` copies the harness's page tables (it cannot use vfork) and closes descriptors one by one:
with thousands of sandboxes each start would stall the event loop.
"""

import ctypes
import os
import platform
import signal
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

# The raw system calls setgroups, setresgid and setresuid change one thread; glibc's functions change all threads.
_CREDENTIALS = {"x86_64": (116, 119, 117), "aarch64": (159, 149, 147)}
_SIGNALS = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
"""Python ignores SIGPIPE and SIGXFSZ, `nohup` SIGHUP, and a job in the background of a script SIGINT and SIGQUIT."""


class Piped(NamedTuple):
    """A process, with pipes to its stdin and from its stdout and stderr."""

    pid: int
    stdin: int
    stdout: int


def spawn(
    command: list[str], environment: Mapping[str, str], inherited: Iterable[int] = (), owner: int | None = None
) -> Piped:
    """Starts `command` as leader of a new session, with the `inherited` descriptors and pipes.

    `owner` is the uid and gid to run as instead of root. The calling thread assumes them during the start, and the
    kernel then protects the process from others of that uid. Raises `OSError`.
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
                setsigdef=_SIGNALS,
                setsigmask=(),  # a cluster worker blocks SIGINT
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
    """Switches root's thread to another user; the saved ids, which a started program does not inherit, allow switching
    back."""
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
