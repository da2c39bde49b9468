"""The command line in this process: a process of its own would load every library anew for each command.

What needs one, such as a signal, a kill or a terminal, starts it itself.
"""

import io
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

from hermes_lab.runners.cli import main


def lab(*args: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs `hermes-lab`; returns its exit code and output."""
    command = ["hermes-lab", *map(str, args)]
    out, errors = _Stream(), _Stream()
    with ExitStack() as around:
        around.enter_context(patch.object(sys, "argv", command))
        around.enter_context(patch.dict(os.environ, environment))
        around.enter_context(redirect_stdout(out))
        around.enter_context(redirect_stderr(errors))
        around.enter_context(_signals())
        try:
            main()
        except SystemExit as ended:
            code = ended.code
    assert isinstance(code, int)
    return subprocess.CompletedProcess(command, code, out.text(), errors.text())


class _Stream(io.TextIOWrapper):
    """A stream that is not a terminal; includes what is written to its binary buffer."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", newline="")

    def text(self) -> str:
        self.flush()
        content = self.buffer.getvalue()  # type: ignore[attr-defined]
        return content.decode()


@contextmanager
def _signals() -> Iterator[None]:
    """Restores the signal handlers that the command line replaces."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
