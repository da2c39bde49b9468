"""Blocking work in a thread ends when the task that waits for it is cancelled."""

import asyncio
import time

import anyio
import anyio.to_thread

from hermes_lab.skills import waiting


async def test_work_that_begins_just_after_the_cancellation_ends() -> None:
    """As with Ctrl-C in the moment in which the tests of a skill are started."""
    loop, ended = asyncio.get_running_loop(), False

    async def work() -> None:
        nonlocal ended
        await anyio.sleep(20)
        ended = True

    def cancel() -> None:
        time.sleep(0.1)  # until the thread has asked whether it was cancelled, and has handed its work over
        scope.cancel()

    def in_thread() -> None:
        loop.call_soon_threadsafe(cancel)
        waiting.run(work)

    with anyio.CancelScope() as scope:
        await anyio.to_thread.run_sync(in_thread)
    assert scope.cancelled_caught
    assert not ended
