"""Starts a program that ends with the process that asked for it: `child.py PARENT PROGRAM ARGUMENT ...`.

It is run by its path, and imports nothing of this package. Without it, a command would go on after its ticker was
killed, and its job could run twice at a time.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(parent: int, program: list[str]) -> None:
    """Becomes the program."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() == parent:
        os.execv(program[0], program)  # no shell is wanted


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
