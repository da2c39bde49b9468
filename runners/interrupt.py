"""Ctrl-C, pressed twice."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def one_interrupt() -> Iterator[None]:
    """In an event loop's main task: the first Ctrl-C cancels the task, and ends the process sooner or later.

    Further ones are passed over from then on: they would tear what is being ended, and leave it lying about. For the
    impatient there is kill -9, after which a run can be resumed too.
    """
    cancel = signal.getsignal(signal.SIGINT)
    # Only the main thread may set handlers; elsewhere whoever waits for this thread is interrupted.
    if not callable(cancel) or threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        cancel(number, frame)

    signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is end:
            signal.signal(signal.SIGINT, cancel)


@contextmanager
def ignored_interrupts() -> Iterator[None]:
    """Ignores Ctrl-C, while something that was interrupted cleans up. Only the main thread can do so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
