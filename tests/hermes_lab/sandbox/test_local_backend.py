from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.errors import ConfigError
from hermes_lab.sandbox import missing_guarantees, open_sandbox, probe

pytestmark = pytest.mark.anyio
LOCAL = SandboxConfig(backend="local", allow_local=True)


def test_local_must_be_allowed_and_says_why() -> None:
    with pytest.raises(ConfigError, match=r"as you, .*sandbox\.allow_local=true") as caught:
        open_sandbox(SandboxConfig(backend="local"))
    assert "\n" not in str(caught.value)


async def test_probe_runs_a_command_of_the_configured_backend() -> None:
    await probe(LOCAL)
    with pytest.raises(ConfigError):
        await probe(SandboxConfig(backend="local"))


def test_what_a_backend_cannot_keep_is_told() -> None:
    assert missing_guarantees(SandboxConfig()) == ()
    assert any("no isolation" in line for line in missing_guarantees(LOCAL))


async def test_state_persists_and_paths_are_the_real_ones() -> None:
    async with open_sandbox(LOCAL) as sandbox:
        await sandbox.write("/app/data/in/a.txt", b"one\n")
        assert (await sandbox.exec("cd in && export KEPT=2; cat a.txt")).output == "one\n"
        result = await sandbox.exec("pwd; echo $KEPT; echo three >b.txt")
        where = result.output.splitlines()[0]
        assert result.output == f"{where}\n2\n"
        assert await sandbox.read("in/b.txt") == b"three\n"
        assert Path(where).is_dir()  # noqa: ASYNC240
    assert not Path(where).exists()  # noqa: ASYNC240


async def test_background_processes_stand_still_for_a_fresh_command_and_others_do_not(
    marker: str, is_running: Callable[[str], bool]
) -> None:
    async with open_sandbox(LOCAL) as sandbox, open_sandbox(LOCAL) as other:
        for one in (sandbox, other):
            await one.exec("(while :; do date +%s%N >t; mv t tick; done) & export FOO=1")
            await one.exec("until [ -s tick ]; do :; done")
        still = await sandbox.exec('cp tick a; sleep 0.3; cmp a tick; echo "$? [$FOO] $HOME"', fresh=True)
        assert still.output == "0 [] /\n"
        assert (await other.exec("cp tick a; sleep 0.3; cmp -s a tick")).exit_code == 1
        assert (await sandbox.exec("cp tick a; sleep 0.5; cmp -s a tick")).exit_code == 1


async def test_processes_that_fork_away_are_all_ended(marker: str, is_running: Callable[[str], bool]) -> None:
    async with open_sandbox(LOCAL) as sandbox:
        await sandbox.exec(f"for n in 1 2 3; do (setsid bash -c 'sleep {marker} & exec setsid sleep {marker}' &); done")
        with anyio.fail_after(60):
            while not is_running(marker):  # noqa: ASYNC110
                await anyio.sleep(0.01)
    assert not is_running(marker)


async def test_a_timeout_kills_the_command_and_the_session_goes_on() -> None:
    async with open_sandbox(LOCAL) as sandbox:
        assert (await sandbox.exec("echo begun; sleep 60", timeout=2)) == ("begun\n", 124, True, False)
        assert (await sandbox.exec("echo on")).output == "on\n"
