"""The apptainer backend, with a test double of the program: its command line, and what its containers keep."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from fakes import processes

from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.errors import ConfigError, SandboxError
from hermes_lab.sandbox import missing_guarantees, open_sandbox, probe
from hermes_lab.sandbox.apptainer import ApptainerMachine


async def test_a_container_runs_commands_and_programs_over_its_own_workspace(apptainer: SandboxConfig) -> None:
    await probe(apptainer)
    async with open_sandbox(apptainer) as sandbox:
        assert sandbox.workspace_path == "/app/data"
        await sandbox.write("in/a.txt", b"hello")
        assert (await sandbox.exec("pwd; cat in/a.txt; ls /home; cd in; export X=1")).output == "/app/data\nhello"
        assert (await sandbox.exec("pwd; echo $X")).output == "/app/data/in\n1\n"
        assert (await sandbox.exec("pwd", fresh=True)).output == "/app/data\n"
        done = await sandbox.exec("sleep 30", timeout=0.3)
        assert done.timed_out
        program = await sandbox.start(["cat"], {"PATH": "/usr/bin:/bin"})
        await program.send(b"through")
        assert await program.receive() == b"through"
        async with sandbox.fork() as sibling:
            assert (await sibling.exec("cat in/a.txt")).output == "hello"
        packed = await sandbox.pack(1_000_000)
    async with open_sandbox(apptainer) as other:
        assert (await other.exec("ls -A")).output == ""
        await other.unpack(packed)
        assert await other.read("in/a.txt") == b"hello"


async def test_there_is_no_network_and_nothing_of_this_machine(apptainer: SandboxConfig, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    async with open_sandbox(apptainer) as sandbox:
        for command in (f"cat {tmp_path}/secret", "ls /work", "cat /proc/net/route | grep -q eth"):
            assert (await sandbox.exec(command)).exit_code != 0
        assert "HERMES_LAB_PROGRAMS" not in (await sandbox.exec("env")).output


async def test_nothing_outlives_the_container_or_the_harness(
    apptainer: SandboxConfig, marker: str, is_running: Callable[[str], bool]
) -> None:
    async with open_sandbox(apptainer) as sandbox:
        await sandbox.exec(f"env -i setsid sleep {marker} &")
        await processes.eventually(lambda: is_running(marker))
    await processes.eventually(lambda: not is_running(marker))
    code = (
        "import anyio\n"
        "from hermes_lab.sandbox import open_sandbox\n"
        "from hermes_lab.config.sandboxes import SandboxConfig\n"
        "async def main():\n"
        "    async with open_sandbox(SandboxConfig(backend='apptainer', image='/')) as sandbox:\n"
        f"        await sandbox.exec('env -i setsid sleep {marker} &')\n"
        "        print('up', flush=True); await anyio.sleep(60)\n"
        "anyio.run(main)\n"
    )
    process = await anyio.open_process([sys.executable, "-c", code])
    assert process.stdout is not None
    assert (await process.stdout.receive()).startswith(b"up")
    assert is_running(marker)
    process.send_signal(signal.SIGKILL)
    await process.wait()
    await process.aclose()
    await processes.eventually(lambda: not is_running(marker))


async def test_volumes_are_there_and_read_only_ones_stay(apptainer: SandboxConfig, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a").write_text("x")
    volumes = (f"{tmp_path}/data:/mnt/in:ro", f"{tmp_path}:/mnt/out")
    async with open_sandbox(apptainer.model_copy(update={"volumes": volumes})) as sandbox:
        assert (await sandbox.exec("cat /mnt/in/a; echo y >/mnt/in/a")).exit_code != 0
        assert (await sandbox.exec("echo z >/mnt/out/b")).exit_code == 0
    assert (tmp_path / "data" / "a").read_text() == "x"
    assert (tmp_path / "b").read_text() == "z\n"


def test_the_command_line_is_that_of_an_isolated_container(apptainer: SandboxConfig, tmp_path: Path) -> None:
    machine = ApptainerMachine(apptainer.model_copy(update={"gpu": "nvidia", "volumes": (f"{tmp_path}:/mnt/x:ro",)}))
    said = " ".join(machine._command(Path("/tmp/w")))
    for part in (
        "exec --containall",
        "--no-home",
        "--no-privs",
        "--net --network none",
        "--nv",
        "--bind /tmp/w:/app/data",
    ):
        assert part in said
    assert f"--bind {tmp_path}:/mnt/x:ro" in said


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"image": "docker://python:3.11-slim"}, r"pull it once: apptainer pull python_3.11-slim\.sif docker://python"),
        ({"image": "nosuch.sif"}, r"sandbox\.image: nosuch\.sif: no such \.sif file or folder"),
        ({"gpu": "T4"}, r"sandbox\.gpu: 'T4': with apptainer give nvidia or rocm"),
        ({"volumes": ("/tmp:/app/data",)}, r"/app/data is the sandbox's own"),
        ({"require": ("verifier",)}, r"sandbox\.backend=apptainer does not keep verifier"),
    ],
)
def test_what_cannot_work_is_refused_before_a_run(
    apptainer: SandboxConfig, fields: dict[str, object], why: str
) -> None:
    with pytest.raises(ConfigError, match=why):
        open_sandbox(apptainer.model_copy(update=fields))


def test_a_missing_program_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="no apptainer or singularity on the PATH"):
        open_sandbox(SandboxConfig(backend="apptainer", image="/"))
    assert len(missing_guarantees(SandboxConfig(backend="apptainer"))) == 3


async def test_a_container_that_does_not_start_says_why(apptainer: SandboxConfig, tmp_path: Path) -> None:
    broken = tmp_path / "apptainer"
    broken.write_text("#!/bin/sh\necho 'FATAL:   no user namespaces' >&2; exit 255\n")
    broken.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        with pytest.raises(SandboxError, match="python3 did not start; it said: FATAL:   no user namespaces"):
            async with open_sandbox(apptainer):
                pass
