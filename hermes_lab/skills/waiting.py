"""For blocking work that may run in a thread for which a task waits: it ends soon after the task is cancelled."""

import asyncio
import concurrent.futures
import math
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, TypeVarTuple

import anyio
import anyio.from_thread

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


def check_cancelled() -> bool:
    """Raises the exception of a cancellation if the task that waits for this thread was cancelled.

    Returns whether a task waits: in the main thread of a command none does, and Ctrl-C is a `KeyboardInterrupt`.
    """
    try:
        anyio.from_thread.check_cancelled()
    except RuntimeError:
        return False
    return True


def run(work: Callable[[*Ts], Coroutine[Any, Any, T]], *args: *Ts) -> T:
    """Runs `work` to its end: in the event loop of the task that waits for this thread, so that it is cancelled with
    the task, or else in its own."""
    if not check_cancelled():
        return anyio.run(work, *args)

    async def uncancelled() -> T:
        # A cancellation after the check above, but before this task began, has not reached it.
        if anyio.current_effective_deadline() == -math.inf:
            raise asyncio.CancelledError
        return await work(*args)

    try:
        return anyio.from_thread.run(uncancelled)
    except (concurrent.futures.CancelledError, asyncio.CancelledError):
        check_cancelled()
        raise
