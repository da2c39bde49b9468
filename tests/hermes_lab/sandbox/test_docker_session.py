"""How a session in a real container behaves; nothing here stands in for the engine."""

import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import anyio
import pytest
from docker_fixture import needed_config

from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.errors import SandboxError, ToolError
from hermes_lab.sandbox.docker import DockerSandbox
from hermes_lab.sandbox.docker_engine import engine

pytestmark = pytest.mark.anyio
IsRunning = Callable[[str], bool]
Eventually = Callable[[Callable[[], bool]], Awaitable[None]]


@pytest.fixture
def config() -> SandboxConfig:
    return needed_config()


@pytest.fixture
async def container(config: SandboxConfig) -> AsyncIterator[DockerSandbox]:
    async with DockerSandbox(config) as container:
        yield container


@pytest.fixture
def episodes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the folders of this test's episodes are made."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        monkeypatch.setattr(tempfile, "tempdir", name)
        yield Path(name)


def _nothing_is_left(episodes: Path) -> bool:
    harnesses = [folder.name for folder in episodes.iterdir()]
    containers = [name for each in engine().containers(all=True) for name in each["Names"]]
    return not list(episodes.glob("*/docker-*")) and not any(
        harness in name for harness in harnesses for name in containers
    )


async def test_directory_and_exported_variables_persist(container: DockerSandbox) -> None:
    assert (await container.exec("mkdir 'a b' && cd 'a b' && export WORDS=$'x\\n\"y$' && local=1")).exit_code == 0
    result = await container.exec('pwd; printf "%s|%s" "$WORDS" "$local"')
    assert result.output == '/app/data/a b\nx\n"y$|'
    assert (await container.exec("export KEPT=1; exit 3")).exit_code == 3
    assert (await container.exec("echo $KEPT", workdir="/usr")).output == "1\n"
    missing = await container.exec("touch ran", workdir="nowhere")
    assert missing.exit_code == 1
    assert "nowhere" in missing.output
    assert (await container.exec("pwd; ls; rmdir ../a*; cd /")).output == "/app/data/a b\n"
    assert (await container.exec("pwd")).output == "/\n"


async def test_output_is_both_streams_in_order_and_stdin_is_empty(container: DockerSandbox) -> None:
    assert (await container.exec("echo a; echo b >&2; cat; echo c")).output == "a\nb\nc\n"
    assert (await container.exec("echo by name >>/dev/stderr; echo c")).output == "by name\nc\n"
    assert (await container.exec("true\nnosuch")).output == "bash: line 2: nosuch: command not found\n"


async def test_output_keeps_head_and_tail(config: SandboxConfig) -> None:
    async with DockerSandbox(config.model_copy(update={"output_chars": 100})) as container:
        result = await container.exec("seq -w 0 99999")
        assert result.truncated
        assert result.output.startswith("00000\n00001\n")
        assert result.output.endswith("99998\n99999\n")


async def test_a_single_process_is_enough_for_a_command(config: SandboxConfig) -> None:
    async with DockerSandbox(config.model_copy(update={"processes": 1})) as container:
        assert (await container.exec("echo on")).output == "on\n"


@pytest.mark.parametrize("command", ["echo \0", "x" * 131_072])
async def test_what_bash_cannot_take_goes_back_to_the_model(container: DockerSandbox, command: str) -> None:
    with pytest.raises(ToolError):
        await container.exec(command)
    assert (await container.exec("echo on")).output == "on\n"


async def test_background_process_outlives_its_command_but_not_the_episode(
    config: SandboxConfig, is_running: IsRunning, marker: str
) -> None:
    async with DockerSandbox(config) as container:
        with anyio.fail_after(60):
            noise = "(while :; do echo noise; sleep 0.01; done) &"
            assert "up" in (await container.exec(f"setsid sleep {marker} & {noise} echo up")).output.split()
        assert (await container.exec("sleep 0.1; echo quiet")).output == "quiet\n"
        assert is_running(marker)
    assert not is_running(marker)


async def test_timeout_kills_what_the_command_started(
    container: DockerSandbox, is_running: IsRunning, eventually: Eventually, marker: str
) -> None:
    earlier = marker.replace("4000.", "5000.")
    await container.exec(f"export A=old; sleep {earlier} &")
    result = await container.exec(f"export A=new; echo begun; sleep {marker} | sleep {marker}; echo no", timeout=2)
    assert result == ("begun\n", 124, True, False)
    await eventually(lambda: not is_running(marker))
    assert is_running(earlier)
    assert (await container.exec("echo $A")).output == "old\n"
    assert (await container.exec("trap '' TERM INT USR1; kill -STOP $$", timeout=0.3)).timed_out


async def test_cancellation_kills_the_command_and_leaves_no_stale_status(
    container: DockerSandbox, is_running: IsRunning, eventually: Eventually, marker: str
) -> None:
    with anyio.move_on_after(0.3) as scope:
        await container.exec(f"sleep {marker}; echo late")
    assert scope.cancelled_caught
    await eventually(lambda: not is_running(marker))
    for seconds in (0.05, 0.0501, 0.06):
        with anyio.move_on_after(seconds):
            await container.exec("sleep 60", timeout=0.05)
        assert (await container.exec("exit 9")).exit_code == 9


@pytest.mark.parametrize("seconds", [0, 0.02, 0.1, 0.2, 1.0])
async def test_cancelling_an_episode_at_any_time_leaves_no_container_and_no_folder(
    config: SandboxConfig, seconds: float, episodes: Path, is_running: IsRunning, marker: str
) -> None:
    with anyio.move_on_after(seconds):
        async with DockerSandbox(config) as container:
            await container.exec(f"setsid sleep {marker} & sleep {marker}")
    assert _nothing_is_left(episodes)
    assert not is_running(marker)


async def test_the_folder_goes_even_when_it_is_nested_deep_and_unreadable(
    config: SandboxConfig, episodes: Path
) -> None:
    async with DockerSandbox(config) as container:
        nest = "import os\nfor _ in range(3000): os.mkdir('d'); os.chdir('d')\nos.chmod('.', 0)"
        await container.exec(f'python3 -c "{nest}"')
    assert _nothing_is_left(episodes)


async def test_a_killed_container_is_an_error_and_not_a_hang(container: DockerSandbox) -> None:
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_kill_soon, container)
            with pytest.raises(SandboxError, match="it was killed"):
                await container.exec("sleep 60")
        with pytest.raises(SandboxError):
            await container.exec("true")


async def _kill_soon(container: DockerSandbox) -> None:
    await anyio.sleep(0.2)
    engine().kill(container._name)


async def test_commands_of_several_tasks_take_turns(container: DockerSandbox) -> None:
    outputs: dict[int, str] = {}

    async def run(n: int) -> None:
        outputs[n] = (await container.exec(f"echo {n}")).output

    async with anyio.create_task_group() as tasks:
        for n in range(10):
            tasks.start_soon(run, n)
    assert outputs == {n: f"{n}\n" for n in range(10)}


async def test_files_pass_both_ways(container: DockerSandbox) -> None:
    await container.write("in/put.txt", b"one\n")
    result = await container.exec("cat in/put.txt && echo two >> in/put.txt && echo three > in/new && rm -r in/new")
    assert result == ("one\n", 0, False, False)
    assert await container.read("/app/data/in/put.txt") == b"one\ntwo\n"


async def test_a_fresh_command_is_out_of_reach_of_what_the_agent_exported(container: DockerSandbox) -> None:
    await container.exec(
        "export LD_PRELOAD=/app/data/x.so BASH_ENV=/app/data/evil; cd /tmp; false() { true; }; export -f false"
    )
    await container.exec(r"trap - EXIT; printf '/app/data\0exit 0\n#\n' >&199")
    assert (await container.exec("exit 7")).exit_code == 0
    result = await container.exec('echo "$PWD $HOME [$LD_PRELOAD]"; false', fresh=True)
    assert (result.output, result.exit_code) == ("/app/data / []\n", 1)
    await container.exec("cd /tmp; export A=1", fresh=True)
    assert (await container.exec("pwd; echo $A", fresh=True)).output == "/app/data\n\n"


async def test_background_processes_stand_still_while_a_verifier_works_and_go_on_after(
    container: DockerSandbox,
) -> None:
    await container.exec("(while :; do date +%s%N >t; mv t tick; done) &")
    await container.exec("until [ -s tick ]; do :; done")
    assert (await container.exec("cp tick a; sleep 0.3; cp tick b; cmp a b", fresh=True)).exit_code == 0
    assert (await container.exec("until ! cmp -s b tick; do :; done", timeout=20)).exit_code == 0


async def test_orphans_leave_no_zombies(container: DockerSandbox) -> None:
    await container.exec("for i in {1..20}; do (setsid true &) ; done")
    command = "for i in {1..100}; do set -- /proc/[0-9]*; (($# == 2)) && echo clean && exit; sleep 0.05; done"
    assert (await container.exec(command)).output == "clean\n"


async def test_running_out_of_memory_is_told_and_survived(config: SandboxConfig) -> None:
    async with DockerSandbox(config.model_copy(update={"memory_mb": 64})) as container:
        greedy = "python3 -c 'b = bytearray(40 << 20); import time; time.sleep(1)'"
        result = await container.exec(f"{greedy} & {greedy} & wait; echo done")
        assert "out of memory" in result.output
        assert "64 MB" in result.output
        assert "out of memory" not in (await container.exec("echo on")).output


def _choose_process_1(container: DockerSandbox) -> None:
    """Where memory runs out, the kernel kills the container's process 1 first."""
    (child,) = container.processes()
    process_1 = Path(f"/proc/{child}/stat").read_text().rsplit(")", 1)[1].split()[1]
    Path(f"/proc/{process_1}/oom_score_adj").write_text("1000")


@pytest.mark.skipif(os.geteuid() != 0, reason="optional: only root may choose what the kernel kills first")
async def test_a_container_that_ran_out_of_memory_goes_on(config: SandboxConfig) -> None:
    async with DockerSandbox(config.model_copy(update={"memory_mb": 64})) as container:
        await container.exec("mkdir sub && cd sub && export KEPT=1; sleep 100 & echo x >file")
        _choose_process_1(container)
        greedy = "python3 -c 'b = bytearray(40 << 20); import time; time.sleep(5)'"
        result = await container.exec(f"echo 0 >/proc/$$/oom_score_adj; {greedy} & {greedy}")
        assert result.exit_code == 137
        assert "out of memory: the limit for all processes and /tmp is 64 MB" in result.output
        assert "/tmp is now empty" in result.output
        assert (await container.exec("pwd; echo $KEPT; cat file")).output == "/app/data/sub\n1\nx\n"
        assert not container.processes()


async def test_a_full_process_limit_is_told_and_ended_by_the_next_command(config: SandboxConfig) -> None:
    async with DockerSandbox(config.model_copy(update={"processes": 24})) as container:
        await container.exec("for i in {1..23}; do sleep 1000 & done")
        result = await container.exec("echo on")
        assert result.output.startswith("on\n")
        assert "limit of 24 processes" in result.output
        await container.exec(":(){ :|:& };:", timeout=1)
        results = []  # of commands that may have begun, or ended, before the bomb had filled the limit
        while not results or results[-1].output != "on\n":
            results.append(await container.exec("/usr/bin/env echo on", timeout=20))
            assert len(results) < 8, results


async def test_a_workspace_over_its_size_stops_the_command_and_later_writes_until_files_go(
    config: SandboxConfig,
) -> None:
    async with DockerSandbox(config.model_copy(update={"disk_mb": 8})) as container:
        filling = "for i in {1..1000}; do head -c 1000000 /dev/zero > $i; sleep 0.05; done"
        result = await container.exec(filling, timeout=60)
        assert result[1:3] == (137, False)
        assert "larger than 8 MB" in result.output
        with pytest.raises(ToolError, match="larger than 8 MB"):
            await container.write("more", b"x")
        refused = await container.exec("head -c 1000000 /dev/zero > more")
        assert refused.exit_code != 0
        await container.exec("rm *")
        assert "larger" not in (await container.exec("head -c 1000000 /dev/zero > more && echo on")).output


async def test_what_fills_the_workspace_in_the_background_is_killed(
    config: SandboxConfig, is_running: IsRunning, eventually: Eventually, marker: str
) -> None:
    async with DockerSandbox(config.model_copy(update={"disk_mb": 8})) as container:
        await container.exec(f"setsid sleep {marker} & (for i in {{1..40}}; do head -c 1000000 /dev/zero > $i; done) &")
        await eventually(lambda: not is_running(marker))
        assert "larger than 8 MB" in (await container.exec("echo on")).output
