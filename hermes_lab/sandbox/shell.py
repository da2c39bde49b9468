"""The bash that is process 1 of a warm session: an executable but unreadable copy."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import TYPE_CHECKING

from hermes_lab.errors import SandboxError

if TYPE_CHECKING:
    from hermes_lab.config.sandboxes import SandboxConfig

_BASH = "/bin/bash"
_SUID_DUMPABLE = Path("/proc/sys/fs/suid_dumpable")

# On one line, so that the lines of a command count from 1; at top level, so that a command is not in a function.
_MAIN = (
    'eval "$1"; shift; begin "$@"; set --; '
    'while next; do case $how in start) launch & set +m;; end) kill -KILL -- "-$number";; '
    '*) (enter; . /proc/self/fd/198; eval "$BASH_EXECUTION_STRING") & finish;; esac; done'
)


@functools.cache
def unreadable_bash() -> int:
    """A descriptor of the copy, kept open while this Python runs.

    A process whose binary is unreadable to it is protected from other processes of its uid, as are its forks until they
    exec: their descriptors, memory and environment. Raises `SandboxError` if bash is missing, or if the kernel setting
    disables this protection.
    """
    if _SUID_DUMPABLE.read_text().strip() == "1":
        raise SandboxError(
            "sandbox: fs.suid_dumpable is 1, which exposes protected processes: run sysctl fs.suid_dumpable=0"
        )
    try:
        binary = Path(_BASH).read_bytes()
    except OSError as error:
        raise SandboxError(f"sandbox: {_BASH}: {error.strerror}; install bash") from None
    fd = os.memfd_create("bash")
    with os.fdopen(os.dup(fd), "wb") as file:
        file.write(binary)
    os.fchmod(fd, 0o111)
    return fd


def session(exchange: int, config: SandboxConfig, *, processes: str = "", address_space: bool = True) -> list[str]:
    """The arguments of process 1; see `session.sh`."""
    memory = str(config.memory_mb * 1024)
    program = memory if address_space else "hard"  # the harness's own limit, which usually is none
    limits = (memory, processes or str(config.processes), str(config.file_mb * 1024), program)
    return ["-c", _MAIN, "bash", _functions(), str(exchange), *limits]


@functools.cache
def _functions() -> str:
    return Path(__file__).with_name("session.sh").read_text()
