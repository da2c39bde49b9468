"""The system calls that no namespace confines, as a seccomp filter.

AF_VSOCK sockets reach the hypervisor from any network namespace, io_uring goes past filters like this one, and the
kernel's keyrings are shared with the host's processes of the same uid: each is answered with EPERM. So is a new user
namespace, in which a process would be root before the kernel's rarer code. clone3 hides its flags behind a pointer, so
it is answered with ENOSYS, at which C libraries fall back to clone.
"""

import functools
import platform
import socket
import struct
from typing import NamedTuple

from hermes_lab.errors import SandboxError

# Instructions of classic BPF (linux/bpf_common.h) and what a filter returns (linux/seccomp.h).
_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _EPERM, _ENOSYS = 0x7FFF0000, 0x00050000 | 1, 0x00050000 | 38
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data, little-endian
_X32_BIT = 0x40000000  # the second system call table of x86-64; no number of arm64 is so large
_CLONE_NEWUSER = 0x10000000
_IO_URING = (425, 426, 427)
_CLONE3 = 435


class _Machine(NamedTuple):
    """AUDIT_ARCH_*, and the numbers of its system calls."""

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
    """The program for `machine` (this one where not named), an array of struct sock_filter as bwrap reads it.

    Raises `SandboxError` for a machine whose system calls are not known here.
    """
    machine = machine or platform.machine()
    if machine not in _MACHINES:
        raise SandboxError(f"sandbox: no seccomp filter for a {machine}; it runs on {' and '.join(_MACHINES)}")
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


_Steps = list[tuple[int, int, int, int]]  # operation, instructions to skip where true, where false, and a value


def _where(jump: int, value: int, answer: int) -> _Steps:
    return [(jump, 0, 1, value), (_RETURN, 0, 0, answer)]


def _unless(jump: int, value: int, answer: int) -> _Steps:
    return [(jump, 1, 0, value), (_RETURN, 0, 0, answer)]


def _where_argument(number: int, jump: int, value: int) -> _Steps:
    """Refuses the system call where its first argument is so, and allows it where not."""
    return [
        (_JUMP_EQUAL, 0, 4, number),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        *_where(jump, value, _EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]
