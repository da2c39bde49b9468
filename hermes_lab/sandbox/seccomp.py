"""The system calls that no namespace confines, as a seccomp filter.

AF_VSOCK sockets reach the hypervisor from any network namespace, io_uring goes past filters like this one,
and the kernel's keyrings are shared with the host's processes of the same uid. Each is answered with EPERM.
"""

import functools
import platform
import socket
import struct
from typing import NamedTuple

from hermes_lab.errors import SandboxError

# Instructions of classic BPF (linux/bpf_common.h) and what a filter returns (linux/seccomp.h).
_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | 1  # errno 1 is EPERM
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data, little-endian
_X32_BIT = 0x40000000  # the second system call table of x86-64; no number of arm64 is so large


class _Machine(NamedTuple):
    """AUDIT_ARCH_*, and the numbers of its system calls."""

    architecture: int
    socket: int
    refused: tuple[int, ...]


_IO_URING = (425, 426, 427)
_MACHINES = {
    "x86_64": _Machine(0xC000003E, 41, (248, 249, 250, *_IO_URING)),  # add_key, request_key, keyctl
    "aarch64": _Machine(0xC00000B7, 198, (217, 218, 219, *_IO_URING)),
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
    # Each check is (instruction, value): true jumps to the refusal at the end, false goes on.
    refusals = [(_JUMP_AT_LEAST, _X32_BIT), *((_JUMP_EQUAL, number) for number in known.refused)]
    program = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_EQUAL, 0, len(refusals) + 5, known.architecture),
        (_LOAD, 0, 0, _NUMBER),
        *((check, len(refusals) - place + 3, 0, value) for place, (check, value) in enumerate(refusals)),
        (_JUMP_EQUAL, 0, 2, known.socket),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_JUMP_EQUAL, 1, 0, socket.AF_VSOCK),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE),
    ]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
