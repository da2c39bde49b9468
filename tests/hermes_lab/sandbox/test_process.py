"""Programs with pipes, on every backend."""

import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import anyio
import pytest

from hermes_lab.errors import SandboxError
from hermes_lab.protocols import Process, Sandbox
from hermes_lab.sandbox import process as process_module
from hermes_lab.sandbox.docker_engine import engine
from hermes_lab.sandbox.remote.sandbox import RemoteSandbox

pytestmark = pytest.mark.anyio
IsRunning = Callable[[str], bool]
Eventually = Callable[[Callable[[], bool]], Awaitable[None]]
PATH = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
TICK = "while :; do date +%s%N >t; mv t tick; done"


async def _bash(sandbox: Sandbox, script: str) -> Process:
    return await sandbox.start(["bash", "-c", script], PATH)


async def _output(process: Process) -> bytes:
    """All of it. Fails where it has no end."""
    found = bytearray()
    with anyio.fail_after(120):
        while data := await process.receive():
            found += data
    return bytes(found)


async def _status(process: Process) -> int:
    with anyio.fail_after(120):
        return await process.wait()


def _left(sandbox: Any) -> list[str]:
    """The files that programs need, of which none may stay; those on another machine are not looked at."""
    if isinstance(sandbox, RemoteSandbox):
        return []
    return [name for name in os.listdir(sandbox.folders.exchange) if name[0].isdigit()]  # noqa: PTH208


async def test_the_three_streams_and_the_exit_status(backend: Any) -> None:
    async with backend.open() as sandbox:
        process = await _bash(sandbox, 'read -r line; echo "got $line"; echo wrong >&2; cat; exit 3')
        await process.send(b"one\n")
        assert await process.receive() == b"got one\n"
        await process.send(b"\xff\x00two")
        assert await process.receive() == b"\xff\x00two"
        await process.close_stdin()
        assert await _output(process) == b""
        assert await _status(process) == 3
        assert process.errors() == "wrong\n"
        assert await process.receive() == b""
        assert _left(sandbox) == []


async def test_environment_and_folder_are_those_that_it_was_given(backend: Any) -> None:
    async with backend.open() as sandbox:
        await sandbox.exec("mkdir sub; cd sub; export OTHER=1")
        process = await sandbox.start(["env"], {"A": "x\n'y' =z", **PATH})
        lines = [line for line in (await _output(process)).decode().splitlines() if not line.startswith("HERMES_LAB")]
        assert sorted(lines) == sorted(["A=x", "'y' =z", f"PATH={PATH['PATH']}"])
        for workdir, seen in ({"": sandbox.workspace_path, f"{sandbox.workspace_path}/sub": "sub"}).items():
            process = await sandbox.start(["pwd"], PATH, workdir)
            assert (await _output(process)).decode().strip().endswith(seen)
        process = await sandbox.start(["pwd"], PATH, "/nowhere")
        assert await _status(process) == 1
        assert "/nowhere" in process.errors()


@pytest.mark.parametrize(("script", "status"), [("kill -TERM $$", 143), ("kill -KILL $$", 137), ("exit 255", 255)])
async def test_a_signal_is_told_as_by_a_shell(backend: Any, script: str, status: int) -> None:
    async with backend.open() as sandbox:
        process = await _bash(sandbox, f"echo last; {script}")
        assert await _output(process) == b"last\n"
        assert await _status(process) == status


@pytest.fixture
def in_the_background() -> Iterator[None]:
    """The harness ignores what a job in the background of a script, and `nohup`, ignore."""
    before = {
        number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
    }
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("in_the_background")
async def test_signals_and_descriptors_are_as_usual(backend: Any) -> None:
    async with backend.open() as sandbox:
        signals = await _output(await sandbox.start(["grep", "-E", "Sig(Ign|Blk)", "/proc/self/status"], PATH))
        usual = (1 << 31) - 1  # above are those of the C library
        assert [int(line.split()[1], 16) & usual for line in signals.splitlines()] == [0, 0]
        each = "for fd in {0..255}; do [ -e /proc/$$/fd/$fd ] && echo $fd; done"
        assert await _output(await _bash(sandbox, each)) == b"0\n1\n2\n"


async def test_much_data_both_ways(backend: Any) -> None:
    data = bytes(range(256)) * 16_384  # 4 MB
    async with backend.open() as sandbox:
        process = await sandbox.start(["cat"], PATH)

        async def send() -> None:
            await process.send(data)
            await process.close_stdin()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send)
            assert await _output(process) == data
        assert await _status(process) == 0


async def test_what_nobody_receives_makes_the_program_wait_and_is_kept(backend: Any) -> None:
    async with backend.open() as sandbox:
        process = await _bash(sandbox, "head -c 5000000 /dev/zero; echo written >&2; cat >/dev/null")
        await anyio.sleep(0.3)
        assert process.errors() == ""
        received = 0
        with anyio.fail_after(120):
            while received < 5_000_000:
                received += len(await process.receive())
        await process.send(bytes(1_000_000))
        await process.kill()


async def test_the_last_output_is_there_after_the_end(backend: Any) -> None:
    async with backend.open() as sandbox:
        process = await _bash(sandbox, "head -c 60000 /dev/zero; head -c 60000 /dev/zero | tr '\\0' e >&2")
        assert await _status(process) == 0
        assert len(await _output(process)) == 60_000
        assert set(process.errors()) == {"e"}
        assert 1000 < len(process.errors()) < 20_000


async def test_what_is_left_in_a_pipe_at_the_end_is_not_lost(backend: Any) -> None:
    size = process_module._MOST + 40_000  # as much as is received ahead, and a part of what the pipe holds
    async with backend.open() as sandbox:
        process = await _bash(sandbox, f"head -c {size} /dev/zero")
        assert await _status(process) == 0
        assert len(await _output(process)) == size


async def test_several_at_once_and_beside_commands(backend: Any) -> None:
    async with backend.open() as sandbox:
        programs = [await sandbox.start(["cat"], PATH) for _ in range(5)]
        for number, process in enumerate(programs):
            await process.send(b"%d\n" % number)
            assert (await sandbox.exec(f"echo beside {number}")).output == f"beside {number}\n"
        for number, process in enumerate(programs):
            assert await process.receive() == b"%d\n" % number
        async with anyio.create_task_group() as tasks:
            for process in programs:
                tasks.start_soon(process.send, b"x" * 50_000)
                tasks.start_soon(sandbox.exec, "true")
        for process in programs:
            await process.close_stdin()
            assert await _output(process) == b"x" * 50_000
            assert await _status(process) == 0


async def test_a_start_waits_for_a_command_and_two_tasks_start_at_once(
    backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with backend.open() as sandbox:
        await _status(await sandbox.start(["true"], PATH))
        monkeypatch.setattr(process_module, "_START_SECONDS", 1.0)  # without the wait for a command
        outputs = []

        async def start(number: int) -> None:
            outputs.append(await _output(await _bash(sandbox, f"ls done && echo {number}")))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(sandbox.exec, "sleep 1.3; touch done")
            await anyio.sleep(0.05)
            tasks.start_soon(start, 1)
            tasks.start_soon(start, 2)
        assert sorted(outputs) == [b"done\n1\n", b"done\n2\n"]


async def test_they_stand_still_for_a_verifier_and_go_on_after(backend: Any) -> None:
    async with backend.open() as sandbox:
        process = await _bash(sandbox, f"({TICK}) & {TICK.replace('tick', 'tock').replace('>t;', '>u;')}")
        await sandbox.exec("until [ -s tick ] && [ -s tock ]; do :; done", timeout=20)
        still = await sandbox.exec("cp tick a; cp tock b; sleep 0.3; cmp a tick && cmp b tock", fresh=True)
        assert still.exit_code == 0, still
        moved = await sandbox.exec("until ! cmp -s a tick && ! cmp -s b tock; do :; done", timeout=20)
        assert moved.exit_code == 0
        await process.kill()


async def test_one_that_ends_at_once_holds_no_verifier(backend: Any) -> None:
    async with backend.open() as sandbox:
        with anyio.fail_after(60):
            for _ in range(10):
                process = await sandbox.start(["true"], PATH)
                assert (await sandbox.exec("echo on", fresh=True)).output == "on\n"
                assert await process.wait() == 0


async def test_killing_it_kills_its_children(backend: Any, marker: str, is_running: IsRunning) -> None:
    async with backend.open() as sandbox:
        process = await _bash(sandbox, f"echo up; sleep {marker} | sleep {marker}")
        assert await process.receive() == b"up\n"
        other = await sandbox.start(["cat"], PATH)
        await process.kill()
        assert await _status(process) == 137
        await process.kill()
        with anyio.fail_after(120):
            while is_running(marker):  # noqa: ASYNC110
                await anyio.sleep(0.01)
        await other.send(b"on")
        assert await other.receive() == b"on"
        assert (await sandbox.exec("echo on")).output == "on\n"


@pytest.mark.parametrize("child", ["sleep 1000", "yes", "cat /dev/zero >&2"])
async def test_a_child_that_keeps_its_pipes_does_not_keep_it_alive(backend: Any, child: str) -> None:
    async with backend.open() as sandbox:
        process = await _bash(sandbox, f"{child} & echo parent; exit 4")
        assert await _status(process) == 4
        assert b"parent\n" in await _output(process)
        assert _left(sandbox) == []
        assert (await sandbox.exec("echo on")).output == "on\n"


async def test_stdin_can_be_closed_at_once_and_is_then_closed(backend: Any) -> None:
    async with backend.open() as sandbox:
        process = await _bash(sandbox, "cat; echo end; sleep 1000")
        await process.close_stdin()
        await process.close_stdin()
        assert await process.receive() == b"end\n"
        with pytest.raises(SandboxError, match="stdin is closed"):
            await process.send(b"x")
        await process.kill()
        with pytest.raises(SandboxError, match="has ended"):
            await process.send(b"x")


async def test_a_program_that_reads_no_more_stops_the_sender(backend: Any) -> None:
    async with backend.open() as sandbox:
        process = await _bash(sandbox, "exec <&-; echo closed; sleep 1000")
        assert await process.receive() == b"closed\n"
        with anyio.fail_after(120), pytest.raises(SandboxError, match="closed its stdin"):
            await process.send(bytes(1_000_000))
        await process.kill()
        process = await _bash(sandbox, "sleep 0.3")
        with anyio.fail_after(120), pytest.raises(SandboxError, match=r"ended|closed"):
            await process.send(bytes(1_000_000))


async def test_output_may_end_before_the_program(backend: Any) -> None:
    async with backend.open() as sandbox:
        process = await _bash(sandbox, "echo x; exec >&-; read -r line; exit 6")
        assert await _output(process) == b"x\n"
        await process.send(b"\n")
        assert await _status(process) == 6


async def test_a_command_that_does_not_exist_says_so(backend: Any) -> None:
    async with backend.open() as sandbox:
        process = await sandbox.start(["no-such-program", "x"], PATH)
        assert await _status(process) == 127
        assert "no-such-program" in process.errors()
        process = await sandbox.start(["echo", "x" * 200_000], PATH)  # more than the kernel takes in one argument
        assert await _status(process) == 126
        assert "too long" in process.errors()


async def test_arguments_pass_unchanged_or_are_refused(backend: Any) -> None:
    odd = ["a b", "'", "$(id)", "*", "", "-n", "x=y", "\n", "\udcff\udc80", "é", "\\"]
    async with backend.open() as sandbox:
        process = await sandbox.start(["printf", "%s|", *odd], PATH)
        assert await _output(process) == os.fsencode("|".join([*odd, ""]))
        assert await _status(process) == 0
        for bad in ("a\0b", "\ud800"):
            with pytest.raises(SandboxError, match="cannot be started"):
                await sandbox.start(["echo", bad], PATH)
            with pytest.raises(SandboxError, match="cannot be started"):
                await sandbox.start(["echo"], PATH, workdir=bad)
            with pytest.raises(SandboxError, match="cannot be started"):
                await sandbox.start(["echo"], {"A": bad})
        assert _left(sandbox) == []
        assert await _output(await sandbox.start(["echo", "on"], PATH)) == b"on\n"


async def test_many_starts_leave_nothing(backend: Any) -> None:
    async with backend.open() as sandbox:
        await _status(await sandbox.start(["true"], PATH))
        before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
        for number in range(60):
            process = await _bash(sandbox, f"echo {number}")
            if number % 3 == 0:
                await process.kill()
            else:
                await _status(process)
        assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
        assert _left(sandbox) == []
        assert len(sandbox._programs) <= 1
        with anyio.fail_after(120):
            while not isinstance(sandbox, RemoteSandbox) and sandbox.processes():  # noqa: ASYNC110
                await anyio.sleep(0.01)


async def test_the_end_of_the_sandbox_ends_them(backend: Any, marker: str, is_running: IsRunning) -> None:
    statuses = []

    async def wait(process: Process) -> None:
        assert await process.receive() == b""
        statuses.append(await process.wait())

    async with anyio.create_task_group() as tasks:
        async with backend.open() as sandbox:
            process = await _bash(sandbox, f"echo up; setsid sleep {marker} & sleep {marker}")
            assert await process.receive() == b"up\n"
            tasks.start_soon(wait, process)
            await anyio.sleep(0.05)
        assert not is_running(marker)
    assert statuses == [137]
    await process.kill()
    with pytest.raises(SandboxError, match="has ended"):
        await sandbox.start(["true"], PATH)
    with pytest.raises(SandboxError, match="has ended"):
        await process.send(b"x")


async def test_a_killed_sandbox_starts_nothing_and_ends_what_runs(backend_here: Any) -> None:
    async with backend_here.open() as sandbox:
        process = await sandbox.start(["cat"], PATH)
        if backend_here.name == "docker":
            engine().kill(sandbox._name)
        else:
            os.kill(sandbox.process_1(), signal.SIGKILL)
        if backend_here.name != "local":  # there it lives on until the end
            assert await _status(process) == 137
        with anyio.fail_after(120):
            with pytest.raises(SandboxError):
                await sandbox.start(["cat"], PATH)
            if backend_here.name != "local":
                with pytest.raises(SandboxError):
                    await sandbox.listen(8000)


async def test_who_kills_what_waits_for_it_ends_too(backend: Any, marker: str, is_running: IsRunning) -> None:
    async with backend.open() as sandbox:
        process = await _bash(sandbox, f"kill -KILL $PPID || exit 5; exec sleep {marker}")
        assert await _status(process) == (5 if backend.name == "docker" else 137)  # there it is another user's
        with anyio.fail_after(120):
            while is_running(marker):  # noqa: ASYNC110
                await anyio.sleep(0.01)
        assert (await sandbox.exec("echo on")).output == "on\n"


async def test_a_start_that_is_cancelled_leaves_nothing(
    backend: Any, marker: str, is_running: IsRunning, eventually: Eventually
) -> None:
    async with backend.open() as sandbox:
        for step in range(12):
            with anyio.move_on_after(step * 0.001):
                process = await sandbox.start(["sleep", marker], PATH)
                await process.kill()
            assert len(_left(sandbox)) <= 5
        with anyio.CancelScope() as scope:
            scope.cancel()
            await sandbox.start(["sleep", marker], PATH)
        process = await sandbox.start(["cat"], PATH)
        await process.send(b"on")
        assert await process.receive() == b"on"
        await process.kill()
        for each in sandbox._programs:
            await each.kill()
        await eventually(lambda: not is_running(marker))
        assert _left(sandbox) == []


async def test_every_wait_can_be_cancelled(backend: Any, marker: str, is_running: IsRunning) -> None:
    async with backend.open() as sandbox:
        process = await _bash(sandbox, f"read -r line; echo $line; sleep {marker}")
        for wait in (process.receive, process.wait):
            with anyio.move_on_after(0.05) as scope:
                await wait()
            assert scope.cancelled_caught
        await process.send(b"on\n")
        assert await process.receive() == b"on\n"
        with anyio.move_on_after(0.05) as scope:
            await process.send(bytes(1_000_000))
        assert scope.cancelled_caught
        with anyio.CancelScope() as scope:
            scope.cancel()
            await process.kill()
        with anyio.fail_after(120):
            while is_running(marker):  # noqa: ASYNC110
                await anyio.sleep(0.01)
        assert _left(sandbox) == []
        assert (await sandbox.exec("echo on")).output == "on\n"


async def test_a_sibling_has_programs_of_its_own(backend: Any, marker: str, is_running: IsRunning) -> None:
    async with backend.open() as sandbox:
        own = await sandbox.start(["cat"], PATH)
        async with sandbox.fork() as sibling:
            other = await _bash(sibling, f"echo up; sleep {marker}")
            assert await other.receive() == b"up\n"
            await sibling.exec("true", fresh=True)
        assert not is_running(marker)
        await own.send(b"on")
        assert await own.receive() == b"on"
