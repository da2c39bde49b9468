"""Handling of repeated Ctrl-C."""

import signal
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import FrameType


@asynccontextmanager
async def one_interrupt() -> AsyncIterator[None]:
    """Ignores every Ctrl-C after the first, which cancels the main task of the event loop.

    A second one would interrupt the cleanup and leave processes and files behind. A run can also be resumed after
    `kill -9`. It is asynchronous so that it is entered inside the event loop: a handler that is set before the loop
    starts replaces the loop's own, and Ctrl-C then raises `KeyboardInterrupt` in whatever line runs, for example
    between starting a worker thread and registering its shutdown.
    """
    cancel = signal.getsignal(signal.SIGINT)
    # Only the main thread may set signal handlers. In another thread, the waiting main thread is interrupted instead.
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
