"""Runs a command that ends with its parent: `python watchdog.py PARENT_PID SECONDS COMMAND...` (Linux).

The command gets its own process group. When the parent ends (even by SIGKILL), this process gets SIGTERM, or the
command ends, the whole group is ended: SIGTERM to the command, and after SECONDS SIGKILL to the rest. Exits with the
command's code. Imports little, since one runs next to every managed server.
"""

import os
import select
import signal
import subprocess
import sys


def watch(parent: int, seconds: float, command: list[str]) -> int:
    """Runs `command` until it or `parent` ends. Returns its exit code, negative if a signal ended it."""
    watched = os.pidfd_open(parent)
    if os.getppid() != parent:  # the parent ended before it could be watched
        return 1
    stopped = _on_sigterm()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    ended = os.pidfd_open(process.pid)
    select.select([watched, stopped, ended], [], [])
    os.kill(process.pid, signal.SIGTERM)
    select.select([ended], [], [], seconds)
    # Before `wait`, after which the process id, and so the group's, may be reused.
    os.killpg(process.pid, signal.SIGKILL)
    return process.wait()


def _on_sigterm() -> int:
    """A file descriptor that becomes readable on SIGTERM."""
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable)
    signal.signal(signal.SIGTERM, lambda *_: None)
    return readable


if __name__ == "__main__":
    sys.exit(watch(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]))
