"""Eyes on the processes of this machine."""

import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio


def unique_seconds() -> str:
    """Seconds to sleep that no other process of the host sleeps."""
    return f"4000.{uuid.uuid4().int}"


def is_running(marker: str) -> bool:
    """Whether any process of the host has the marker in its command line."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if marker.encode() in path.read_bytes():
                return True
        except OSError:
            continue
    return False


async def eventually(condition: Callable[[], bool]) -> None:
    """Waits for a condition, and fails where it never comes."""
    with anyio.fail_after(60):
        while not condition():  # noqa: ASYNC110
            await anyio.sleep(0.01)


async def cancelled_once(condition: Callable[[], bool], work: Callable[[], Awaitable[object]]) -> None:
    """Does the work until the condition holds, and cancels it then; fails if it ends of its own accord."""

    async def works() -> None:
        await work()
        raise AssertionError("it was not cancelled")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(works)
        await eventually(condition)
        tasks.cancel_scope.cancel()
