"""The memory of all processes together, and the whole workspace: on both backends that the harness itself meters."""

import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.errors import ToolError
from hermes_lab.protocols import Sandbox
from hermes_lab.sandbox import meter, open_sandbox

pytestmark = pytest.mark.anyio
FULL = "[killed: the workspace is larger than 8 MB]"
FILL = "for n in {1..20}; do head -c 1000000 /dev/zero >part$n; done; sleep %s"


@pytest.fixture(params=["bubblewrap", "local"])
def small(request: pytest.FixtureRequest) -> Sandbox:
    return open_sandbox(SandboxConfig(backend=request.param, allow_local=True, disk_mb=8, memory_mb=200))


async def _noticed(sandbox: Any) -> None:
    """Until the meter has done its work, with no command running."""
    with anyio.fail_after(60):
        while not sandbox._notices:  # noqa: ASYNC110
            await anyio.sleep(0.02)
    with meter._meter._killing:
        pass


async def test_a_command_that_fills_the_disk_is_killed_and_told(small: Sandbox, marker: str) -> None:
    async with small as sandbox:
        result = await sandbox.exec(f"echo begun; {FILL % marker}", timeout=30)
        assert (result.output, result.exit_code, result.timed_out) == (f"begun\n{FULL}\n", 137, False)


async def test_a_full_workspace_takes_no_more_until_files_are_removed(small: Sandbox, marker: str) -> None:
    async with small as sandbox:
        await sandbox.exec(FILL % marker, timeout=30)
        assert (await sandbox.exec("head -c 1000000 /dev/zero >more")).exit_code != 0
        with pytest.raises(ToolError, match="remove files"):
            await sandbox.write("more", b"x")
        assert (await sandbox.exec("rm part*; sleep 0.5; echo gone")).output == "gone\n"
        assert (await sandbox.exec("head -c 1000000 /dev/zero >more")).exit_code == 0
        await sandbox.write("more", b"x")


async def test_a_disk_bomb_in_the_background_is_killed_while_no_command_runs(
    small: Sandbox,
    marker: str,
    is_running: Callable[[str], bool],
    eventually: Callable[[Callable[[], bool]], Awaitable[None]],
) -> None:
    async with small as sandbox:
        await sandbox.exec(f"({FILL % marker}) &")
        await _noticed(sandbox)
        await eventually(lambda: not is_running(marker))
        assert (await sandbox.exec("echo judged", fresh=True)).output == "judged\n"
        result = await sandbox.exec("echo next")
        assert (result.output, result.exit_code) == (f"next\n{FULL}\n", 0)
        assert (await sandbox.exec("echo next")).output == "next\n"


async def test_many_quick_commands_cannot_fill_the_disk_between_them(small: Sandbox) -> None:
    async with small as sandbox:
        with anyio.fail_after(60):
            n = 0
            while (await sandbox.exec(f"head -c 1000000 /dev/zero >part{n}")).exit_code == 0:
                n += 1
                await anyio.sleep(0.1)


async def test_a_file_without_a_name_counts(small: Sandbox, marker: str) -> None:
    async with small as sandbox:
        result = await sandbox.exec(f"exec 9>part; rm part; head -c 20000000 /dev/zero >&9; sleep {marker}", timeout=30)
        assert FULL in result.output


async def test_processes_that_take_too_much_together_are_killed_in_the_background_too(
    small: Sandbox,
    marker: str,
    is_running: Callable[[str], bool],
    eventually: Callable[[Callable[[], bool]], Awaitable[None]],
) -> None:
    script = "import os, sys, time; data = os.urandom(1) * (80 << 20); time.sleep(float(sys.argv[1]))"
    async with small as sandbox:
        await sandbox.write("hold.py", script.encode())
        await sandbox.exec(f"for n in 1 2 3; do python3 hold.py {marker} & done")
        await _noticed(sandbox)
        await eventually(lambda: not is_running(marker))
        assert "[killed: its processes and /tmp take more than 200 MB of memory]" in (await sandbox.exec(":")).output


async def test_shared_memory_is_not_counted_once_for_each_process(small: Sandbox) -> None:
    script = (
        "import os, time\ndata = bytearray(60 << 20)\nfor n in range(6):\n    if os.fork() == 0: break\ntime.sleep(1)"
    )
    async with small as sandbox:
        await sandbox.write("share.py", script.encode())
        assert (await sandbox.exec("python3 share.py; echo well")).output == "well\n"


async def test_scratch_in_memory_counts(marker: str) -> None:
    async with open_sandbox(SandboxConfig(memory_mb=200)) as sandbox:
        fill = "head -c 45000000 /dev/zero >/tmp/a; head -c 45000000 /dev/zero >/dev/shm/a"
        hold = f"python3 -c 'import time; data = b\"x\" * (120 << 20); time.sleep({marker})'"
        assert "of memory]" in (await sandbox.exec(f"{fill}; {hold}", timeout=30)).output


async def test_an_idle_sandbox_is_not_watched(small: Sandbox) -> None:
    async with small as sandbox:
        await sandbox.exec("true")
        with anyio.fail_after(60):
            while id(sandbox) in meter._meter._watches:  # noqa: ASYNC110
                await anyio.sleep(0.05)


async def test_one_thread_serves_all(small: Sandbox) -> None:
    async with small as sandbox, open_sandbox(SandboxConfig()) as other:
        await sandbox.exec("true")
        await other.exec("true")
    assert [thread.name for thread in threading.enumerate()].count("sandbox-meter") == 1


def test_a_measured_folder_is_not_left_by_links(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(100_000))
    (tmp_path / "out").symlink_to("/usr")
    assert 100_000 <= meter.workspace_bytes(tmp_path) < 200_000


def test_folders_nested_beyond_measure_are_more_than_any_limit(tmp_path: Path) -> None:
    here: Any = tmp_path
    for _ in range(300):
        here = here / "d"
        here.mkdir()
    assert meter.workspace_bytes(tmp_path) > 1 << 50
    assert meter.workspace_bytes(tmp_path / "missing") == 0
