"""A seccomp filter for system calls that namespaces do not confine.

AF_VSOCK sockets reach the hypervisor from any network namespace, io_uring bypasses seccomp filters, and kernel keyrings
are shared with host processes of the same uid: each gets EPERM. So does creating a user namespace, in which a process
would reach rarely used kernel code as root. clone3 passes its flags behind a pointer, so it gets ENOSYS, on which C
libraries fall back to clone.
"""

import functools
import platform
import socket
import struct
from typing import NamedTuple

from hermes_lab.errors import SandboxError

# Classic BPF instructions (linux/bpf_common.h) and return values of filters (linux/seccomp.h).
_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _EPERM, _ENOSYS = 0x7FFF0000, 0x00050000 | 1, 0x00050000 | 38
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data, little-endian
_X32_BIT = 0x40000000  # the second system call table of x86-64; arm64 numbers are smaller
_CLONE_NEWUSER = 0x10000000
_IO_URING = (425, 426, 427)
_CLONE3 = 435


class _Machine(NamedTuple):
    """AUDIT_ARCH_* and system call numbers of an architecture."""

    architecture: int
    socket: int
    clone: int
    unshare: int
    keyrings: tuple[int, int, int]


_MACHINES = {
    "x86_64": _Machine(0xC000003E, 41, 56, 272, (248, 249, 250)),  # add_key, request_key, keyctl
    "aarch64": _Machine(0xC00000B7, 198, 220, 97, (217, 218, 219)),
}


@functools.cache
def seccomp_filter(machine: str = "") -> bytes:
    """The filter for `machine` (default: this one), an array of struct sock_filter as bwrap reads it.

    Raises `SandboxError` for an unsupported architecture.
    """
    machine = machine or platform.machine()
    if machine not in _MACHINES:
        raise SandboxError(f"sandbox: no seccomp filter for {machine}; supported: {' and '.join(_MACHINES)}")
    known = _MACHINES[machine]
    program = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        *_unless(_JUMP_EQUAL, known.architecture, _EPERM),
        (_LOAD, 0, 0, _NUMBER),
        *_where(_JUMP_AT_LEAST, _X32_BIT, _EPERM),
        *_where(_JUMP_EQUAL, _CLONE3, _ENOSYS),
        *(step for number in (*known.keyrings, *_IO_URING) for step in _where(_JUMP_EQUAL, number, _EPERM)),
        *_where_argument(known.socket, _JUMP_EQUAL, socket.AF_VSOCK),
        *_where_argument(known.clone, _JUMP_ANY_BIT, _CLONE_NEWUSER),
        *_where_argument(known.unshare, _JUMP_ANY_BIT, _CLONE_NEWUSER),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


_Steps = list[tuple[int, int, int, int]]  # operation, instructions to skip if true, if false, and a value


def _where(jump: int, value: int, answer: int) -> _Steps:
    return [(jump, 0, 1, value), (_RETURN, 0, 0, answer)]


def _unless(jump: int, value: int, answer: int) -> _Steps:
    return [(jump, 1, 0, value), (_RETURN, 0, 0, answer)]


def _where_argument(number: int, jump: int, value: int) -> _Steps:
    """Refuses the system call if its first argument matches, and allows it otherwise."""
    return [
        (_JUMP_EQUAL, 0, 4, number),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        *_where(jump, value, _EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]
