"""A sandbox beside another: one workspace, everything else apart, and an end with the other at the latest."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from hermes_lab.errors import ToolError
from hermes_lab.sandbox.warm import WarmSandbox

pytestmark = pytest.mark.anyio
IsRunning = Callable[[str], bool]
Eventually = Callable[[Callable[[], bool]], Awaitable[None]]


async def test_files_are_shared_and_directory_and_variables_are_not(backend: Any) -> None:
    async with backend.open() as sandbox:
        await sandbox.exec("mkdir inner; cd inner; export WHOSE=first")
        async with sandbox.fork() as sibling:
            assert (await sibling.exec('echo "[$WHOSE] $(ls)"')).output == "[] inner\n"
            await sibling.exec("mkdir other; cd other; export WHOSE=second; echo seen >file")
            await sibling.write("inner/written", b"#!/bin/sh\necho ran\n")
            assert await sandbox.read("other/file") == b"seen\n"
            here = await sandbox.exec('echo "$WHOSE ${PWD##*/} $(./written)"; echo mine >>../other/file')
            assert here.output == "first inner ran\n"
            assert (await sibling.exec("cat file; echo $WHOSE")).output == "seen\nmine\nsecond\n"
        assert (await sandbox.exec("cat ../other/file; echo $WHOSE")).output == "seen\nmine\nfirst\n"


async def test_its_end_ends_its_processes_alone(
    backend: Any, marker: str, is_running: IsRunning, eventually: Eventually
) -> None:
    async with backend.open() as sandbox:
        await sandbox.exec(f"sleep {marker}1 &")
        async with sandbox.fork() as sibling:
            await sibling.exec(f"sleep {marker}2 & setsid sleep {marker}3 &")
            await eventually(lambda: is_running(f"{marker}2") and is_running(f"{marker}3"))
            assert is_running(f"{marker}1")
        assert not is_running(f"{marker}2")
        assert not is_running(f"{marker}3")
        assert is_running(f"{marker}1")
    assert not is_running(marker)


async def test_they_run_at_the_same_time(backend: Any) -> None:
    async with backend.open() as sandbox, sandbox.fork() as sibling, anyio.create_task_group() as group:
        # Each waits for the other.
        group.start_soon(sandbox.exec, "touch a; until [ -e b ]; do sleep 0.01; done; touch done")
        group.start_soon(sibling.exec, "until [ -e a ]; do sleep 0.01; done; touch b; until [ -e done ]; do :; done")


async def test_a_fresh_command_stops_the_background_of_its_own_sandbox_alone(backend: Any) -> None:
    async with backend.open() as sandbox, sandbox.fork() as sibling:
        await sibling.exec("(while :; do date +%s%N >t; mv t tick; done) &")
        moved = "until [ -s tick ]; do :; done; cp tick a; while cmp -s a tick; do sleep 0.01; done"
        assert (await sandbox.exec(moved, timeout=20, fresh=True)).exit_code == 0


async def test_the_end_of_the_first_is_the_end_of_all(backend_here: Any, marker: str, is_running: IsRunning) -> None:
    async with backend_here.open() as sandbox:
        sibling = await sandbox.fork().__aenter__()
        below = await sibling.fork().__aenter__()
        await sibling.exec(f"sleep {marker}1 &")
        await below.exec(f"setsid sleep {marker}2 &")
        folders = [each.folders for each in (sandbox, sibling, below)]
    assert not is_running(marker)
    assert not folders[0].workspace.exists()
    assert len({each.workspace for each in folders}) == 1
    await below.__aexit__()  # has ended already
    await sibling.__aexit__()


async def test_one_below_ends_with_the_one_it_stands_beside_and_the_first_goes_on(
    backend: Any, marker: str, is_running: IsRunning
) -> None:
    async with backend.open() as sandbox:
        async with sandbox.fork() as sibling:
            below = await sibling.fork().__aenter__()
            await below.exec(f"echo kept >file; sleep {marker} &")
        assert not is_running(marker)
        assert (await sandbox.exec("cat file")).output == "kept\n"


async def test_a_cancelled_one_leaves_nothing_running(
    backend: Any, marker: str, is_running: IsRunning, eventually: Eventually
) -> None:
    async with backend.open() as sandbox:

        async def work() -> None:
            async with sandbox.fork() as sibling:
                await sibling.exec(f"setsid sleep {marker}1 & sleep {marker}2")

        async with anyio.create_task_group() as group:
            group.start_soon(work)
            await eventually(lambda: is_running(f"{marker}1") and is_running(f"{marker}2"))
            group.cancel_scope.cancel()
        assert not is_running(marker)
        assert (await sandbox.exec("echo on")).output == "on\n"


async def test_a_workspace_that_one_filled_is_full_for_the_other(backend: Any, eventually: Eventually) -> None:
    async with backend.open(disk_mb=2) as sandbox:
        async with sandbox.fork() as sibling:
            filled = await sibling.exec("head -c 5000000 /dev/zero >big; sleep 60", timeout=30)
            assert "the workspace is larger than 2 MB" in filled.output
        with pytest.raises(ToolError, match="larger than 2 MB"):
            await sandbox.write("more", b"x")
        async with sandbox.fork() as sibling:
            with pytest.raises(ToolError, match="larger than 2 MB"):
                await sibling.write("more", b"x")
            await sibling.exec("rm big")
        await sandbox.write("more", b"x")


async def test_the_workspace_is_counted_once(backend_here: Any) -> None:
    async with backend_here.open() as sandbox, sandbox.fork() as sibling:
        assert isinstance(sandbox, WarmSandbox)
        await sandbox.exec("head -c 1000000 /dev/zero >big")
        sizes = [each.disk_bytes() for each in (sandbox, sibling)]
        assert all(1_000_000 <= size < 1_500_000 for size in sizes)


async def test_what_the_first_was_provided_with_is_there_too(backend: Any) -> None:
    async with backend.open() as sandbox:
        await sandbox.provide("one/run.sh", b"echo provided\n")
        async with sandbox.fork() as sibling:
            assert (await sibling.exec(f"bash {sibling.skills_path}/one/run.sh")).output == "provided\n"
        assert (await sandbox.exec(f"bash {sandbox.skills_path}/one/run.sh")).output == "provided\n"
