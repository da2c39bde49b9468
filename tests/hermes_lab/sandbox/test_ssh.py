"""Sandboxes behind a real OpenSSH server: what differs from those here."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from fakes import processes
from fakes.sshd import Sshd

from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.errors import ConfigError, SandboxError
from hermes_lab.sandbox import missing_guarantees, open_sandbox, open_sandboxes, probe
from hermes_lab.sandbox.extras import Extras
from hermes_lab.sandbox.remote.package import package
from hermes_lab.types import Root


def workers(sshd: Sshd) -> set[int]:
    """The workers that this server has started."""
    found = subprocess.run(["pgrep", "-f", package().digest], capture_output=True, text=True, check=False).stdout
    return {int(pid) for pid in found.split() if sshd.pid in _above(int(pid))}


def _above(pid: int) -> list[int]:
    """The processes above one."""
    above = []
    while pid > 1:
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            break
        above.append(pid)
    return above


def folder_of(worker: int) -> Path:
    """The folder of a worker's sandboxes, by the lock that it holds; other tests have folders there too."""
    (lock,) = {
        path
        for path in (each.readlink() for each in Path(f"/proc/{worker}/fd").iterdir())
        if path.name == "lock" and path.parent.name.startswith("hermes-lab-")
    }
    return lock.parent


async def test_what_is_probed_is_isolated(sshd: Sshd) -> None:
    await probe(sshd.config())
    await probe(sshd.config(isolation="none"))
    assert missing_guarantees(sshd.config()) == ()
    assert missing_guarantees(sshd.config(isolation="none"))[0].startswith("no isolation: the agent's commands run as")


async def test_sandboxes_share_one_connection_and_one_worker(sshd: Sshd) -> None:
    before = workers(sshd)
    async with open_sandboxes(sshd.config()) as opened:
        async with opened() as one, opened() as two:
            await one.write("a.txt", b"one")
            assert (await two.exec("ls")).output == ""
            (worker,) = workers(sshd) - before
        async with opened() as three:
            assert (await three.exec("ls")).output == ""
            assert worker in workers(sshd)
    await processes.eventually(lambda: worker not in workers(sshd))


async def test_episodes_that_end_at_random_do_not_disturb_each_other(sshd: Sshd) -> None:
    ends: list[int] = []

    async def episode(number: int, opened: Callable[..., Any]) -> None:
        async with opened() as sandbox:
            for step in range(number % 5 + 1):
                assert (await sandbox.exec(f"echo {number}-{step}")).output == f"{number}-{step}\n"
            if number % 7 == 0:
                with anyio.move_on_after(0.05):
                    await sandbox.exec("sleep 50")
        ends.append(number)

    async with open_sandboxes(sshd.config()) as opened, anyio.create_task_group() as group:
        for number in range(50):
            group.start_soon(episode, number, opened)
    assert sorted(ends) == list(range(50))


async def test_a_lost_connection_strikes_its_sandboxes_and_the_next_one_connects_anew(
    sshd: Sshd, marker: str, is_running: Callable[[str], bool]
) -> None:
    known = workers(sshd)
    async with open_sandboxes(sshd.config()) as opened:
        async with opened() as struck:
            await struck.exec(f"sleep {marker} &")
            folder = folder_of(*(workers(sshd) - known))
            async with anyio.create_task_group() as group:
                group.start_soon(_must_fail, struck.exec, "sleep 30")
                await anyio.sleep(0.3)
                await anyio.to_thread.run_sync(sshd.kill_children)
            with pytest.raises(SandboxError, match="the connection was lost"):
                await struck.read("x")  # it stays lost
            await processes.eventually(lambda: not is_running(marker))
        async with opened() as fresh:
            assert (await fresh.exec("echo again")).output == "again\n"
    await processes.eventually(lambda: not folder.exists())


async def _must_fail(call: Callable[..., Any], *args: Any) -> None:
    with pytest.raises(SandboxError, match=r"ssh 127\.0\.0\.1:\d+: the connection was lost"):
        await call(*args)


async def test_a_killed_worker_takes_its_sandboxes_with_it_and_the_next_one_sweeps(
    sshd: Sshd, marker: str, is_running: Callable[[str], bool]
) -> None:
    known = workers(sshd)
    async with open_sandboxes(sshd.config()) as opened:
        async with opened() as struck:
            await struck.exec(f"sleep {marker} &")
            (worker,) = workers(sshd) - known
            folder = folder_of(worker)
            os.kill(worker, signal.SIGKILL)
            with pytest.raises(SandboxError, match="the connection was lost"):
                await struck.exec("true")
            await processes.eventually(lambda: not is_running(marker))
        async with opened() as fresh:
            assert (await fresh.exec("true")).exit_code == 0
            await processes.eventually(lambda: not folder.exists())


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"known_hosts": "/dev/null"}, r"does not have this host key .*ssh-keyscan -p \d+ 127\.0\.0\.1 >> "),
        ({"host": "127.0.0.1", "port": 1}, r"ssh 127\.0\.0\.1:1: cannot connect: "),
        ({"host": "no-such-host.invalid"}, r"ssh no-such-host\.invalid:\d+: cannot connect: "),
        ({"python": "/usr/bin/nosuchpython"}, r"/usr/bin/nosuchpython did not start; it said: .*"),
    ],
)
async def test_what_does_not_work_is_one_clear_line(
    sshd: Sshd, fields: dict[str, Any], why: str, tmp_path: Path
) -> None:
    if fields.get("known_hosts"):
        (tmp_path / "known").touch()
        fields = {"known_hosts": str(tmp_path / "known")}
    with pytest.raises(SandboxError, match=why) as caught:
        async with open_sandbox(sshd.config(**fields)):
            pass
    assert "\n" not in str(caught.value)


async def test_another_host_key_is_refused(sshd: Sshd, tmp_path: Path) -> None:
    other = (sshd.folder / "client.pub").read_text().split()
    (tmp_path / "known").write_text(f"[127.0.0.1]:{sshd.port} {other[0]} {other[1]}\n")
    with pytest.raises(SandboxError, match="does not have this host key"):
        async with open_sandbox(sshd.config(known_hosts=str(tmp_path / "known"))):
            pass


async def test_a_key_that_is_not_accepted_is_named(sshd: Sshd) -> None:
    with pytest.raises(SandboxError, match=r"is refused; it does not accept .*/host"):
        async with open_sandbox(sshd.config(key_file=str(sshd.folder / "host"))):
            pass


async def test_an_old_python_says_so(sshd: Sshd, tmp_path: Path) -> None:
    old = tmp_path / "python"
    old.write_text("#!/bin/sh\nprintf '\\nhermes-lab old 3.8.10\\n'\n")
    for path in (old, tmp_path):
        path.chmod(0o755)
    with pytest.raises(SandboxError, match=r"is Python 3\.8\.10, and 3\.11 or newer is needed there"):
        async with open_sandbox(sshd.config(python=str(old))):
            pass


def test_what_needs_files_of_this_machine_is_refused(sshd: Sshd) -> None:
    for extras in (Extras(installed=(Path("/opt/x"),)), Extras(home=True), Extras(workspace=Path("/tmp"))):
        with pytest.raises(ConfigError, match=r"sandbox\.backend"):
            open_sandbox(sshd.config(), extras)
    with pytest.raises(ConfigError, match="no system of a task's own"):
        open_sandbox(sshd.config(), root=Root(workdir="/w"))
    with pytest.raises(ConfigError, match=r"sandbox\.ssh\.host: name the machine"):
        open_sandbox(SandboxConfig(backend="ssh"))


def test_a_promise_that_is_not_kept_there_is_refused_before_anything_starts() -> None:
    config = SandboxConfig.model_validate(
        {"backend": "ssh", "require": ["no_network"], "ssh": {"host": "x", "isolation": "none"}}
    )
    with pytest.raises(ConfigError) as caught:
        open_sandbox(config)
    why = "commands have the network of that machine"
    assert str(caught.value) == f"sandbox.require: sandbox.backend=ssh does not keep no_network: {why}"


def test_the_worker_needs_nothing_but_what_is_sent(tmp_path: Path) -> None:
    """Run without site packages, as on a machine that has only Python."""
    command = package().command(sys.executable)
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    for first in (b"\nhermes-lab send\n", b"\nhermes-lab has\n"):
        with subprocess.Popen(
            ["sh", "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        ) as worker:
            assert worker.stdin is not None
            assert worker.stdout is not None
            assert worker.stdout.read(len(first)) == first
            if b"send" in first:
                worker.stdin.write(package().data)
            worker.stdin.close()
            assert worker.stdout.read().startswith(b"\nhermes-lab worker ready\n")
        assert worker.returncode == 0
