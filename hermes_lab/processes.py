"""Child processes: modules of this environment, and programs that end with the code that started them."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType


def python_module(name: str, *arguments: str) -> list[str]:
    """The command that runs a module of this environment.

    `-P`: never a module from the current folder, where an agent may have written one of the same name.
    """
    return [sys.executable, "-P", "-m", name, *arguments]


class NotStarted(Exception):
    """A program that cannot be started; the text says why."""


@contextmanager
def started(
    command: Sequence[str], *, environment: Mapping[str, str], cwd: Path | None = None, one_output: bool = False
) -> Iterator[subprocess.Popen[str]]:
    """Starts a program in a session of its own, without input, and waits for its end.

    An exception in the block, such as that of Ctrl-C, kills the program and all that it has started. `one_output`:
    stderr goes to stdout. Raises `NotStarted`.
    """
    process: subprocess.Popen[str] | None = None
    try:
        # An interrupt in the middle of the start would leave a program that nobody ends.
        with _deferred_interrupts():
            try:
                process = subprocess.Popen(
                    command,
                    cwd=cwd,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT if one_output else subprocess.PIPE,
                    text=True,
                    errors="replace",
                    start_new_session=True,
                )
            except OSError as error:
                raise NotStarted(error.strerror) from error
        yield process
    except BaseException:
        if process:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        raise
    finally:
        if process:
            with process:  # closes its pipes, and waits
                pass


@contextmanager
def _deferred_interrupts() -> Iterator[None]:
    """Defers Ctrl-C to the end of the block. Python interrupts only the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed: list[tuple[int, FrameType | None]] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: pressed.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if pressed and callable(before):
            before(*pressed[0])
