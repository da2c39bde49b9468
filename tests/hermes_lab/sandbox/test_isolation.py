"""What a command may try against the harness and the host."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.errors import SandboxError
from hermes_lab.sandbox.bubblewrap import BubblewrapSandbox
from hermes_lab.sandbox.seccomp import seccomp_filter

pytestmark = pytest.mark.anyio
SECRET = "hunter2-of-the-host"


@pytest.fixture
async def small() -> AsyncIterator[BubblewrapSandbox]:
    async with BubblewrapSandbox(SandboxConfig(processes=40, memory_mb=200, file_mb=1)) as sandbox:
        yield sandbox


async def test_secrets_of_the_harness_are_in_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    async with BubblewrapSandbox(SandboxConfig()) as sandbox:
        result = await sandbox.exec("env; cat /proc/*/environ /proc/*/cmdline | tr '\\0' '\\n'")
        assert "HOME=/app/data" in result.output
        assert SECRET not in result.output
        for environment in _proc_files(sandbox, "environ"):
            assert SECRET.encode() not in environment


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user has nothing to give up")
async def test_no_process_keeps_the_uid_or_the_groups_of_root() -> None:
    groups = os.getgroups()
    os.setgroups([0, 4])
    try:
        async with BubblewrapSandbox(SandboxConfig()) as sandbox:
            for status in _proc_files(sandbox, "status"):
                lines = {line.split(b":")[0]: line.split()[1:] for line in status.splitlines()}
                assert set(lines[b"Uid"]) == set(lines[b"Gid"]) == {b"65534"}
                assert lines[b"Groups"] == []
    finally:
        os.setgroups(groups)


@pytest.mark.parametrize("path", ["/etc/shadow", "/root", "/home", "/var", "/sys", "/run", "/work"])
async def test_the_host_is_not_there(sandbox: BubblewrapSandbox, path: str) -> None:
    assert (await sandbox.exec(f"test -e {path}")).exit_code == 1


async def test_nothing_but_the_workspace_and_scratch_is_writable(sandbox: BubblewrapSandbox) -> None:
    result = await sandbox.exec(
        "find / -path /proc -prune -o -type d -writable -print 2>/dev/null |"
        " while read -r folder; do touch $folder/x 2>/dev/null && echo $folder; done"
    )
    assert set(result.output.split()) == {"/app/data", "/tmp", "/dev/shm"}
    for target in (
        "/usr/bin/evil",
        "/etc/passwd",
        "/etc/evil",
        "/evil",
        "/dev/evil",
        "/proc/sys/kernel/hostname",
    ):
        assert (await sandbox.exec(f"echo x > {target}")).exit_code != 0


def test_an_unknown_machine_gets_no_sandbox() -> None:
    with pytest.raises(SandboxError, match="riscv64"):
        seccomp_filter("riscv64")


async def test_host_processes_are_out_of_sight(sandbox: BubblewrapSandbox) -> None:
    pids = (await sandbox.exec("echo /proc/[0-9]*")).output.split()
    assert len(pids) == 2  # process 1 and the command
    assert (await sandbox.exec(f"kill -0 {os.getpid()}")).exit_code != 0


async def test_a_status_cannot_be_forged(sandbox: BubblewrapSandbox) -> None:
    forge = "for fd in {0..255}; do { echo 0 >&$fd; echo 0 >/proc/1/fd/$fd; } 2>/dev/null; done"
    assert (await sandbox.exec(f"{forge}; exit 7")).exit_code == 7
    await sandbox.exec(f"(while :; do {forge}; sleep 0.01; done) &")
    assert (await sandbox.exec("sleep 0.2; exit 5")).exit_code == 5
    assert (await sandbox.exec("echo on; exit 6"))[:2] == ("on\n", 6)


async def test_descriptors_of_the_harness_are_not_inherited(sandbox: BubblewrapSandbox) -> None:
    result = await sandbox.exec("for fd in /proc/self/fd/*; do readlink $fd; done 2>/dev/null | grep pipe: | sort -u")
    own = (await sandbox.exec("ls -l /proc/self/fd")).output
    assert "pipe" not in own
    assert "exchange\n" not in own
    assert len(result.output.splitlines()) <= 1  # the pipeline's own
    assert (await sandbox.exec("cat /proc/1/fd/0; ls -l /proc/1/fd/ | grep -- '->'")).output.count("->") == 0


async def test_process_1_is_closed_to_commands_and_its_forks_to_each_other(sandbox: BubblewrapSandbox) -> None:
    await sandbox.exec("(while :; do :; done) & echo $! >/tmp/other")
    for pid in ("1", "$(cat /tmp/other)"):
        for entry in ("environ", "fd/1", "mem", "maps"):
            closed = await sandbox.exec(f"test -d /proc/{pid} && head -c 1 /proc/{pid}/{entry}", timeout=10)
            assert "Permission denied" in closed.output, (pid, entry)


async def test_only_the_loopback_interface_is_there(sandbox: BubblewrapSandbox) -> None:
    assert (await sandbox.exec("tail -n +3 /proc/net/dev | cut -d: -f1")).output.split() == ["lo"]


async def test_process_1_cannot_be_killed_stopped_or_traced(sandbox: BubblewrapSandbox) -> None:
    await sandbox.exec("kill -KILL 1; kill -STOP 1; kill -TERM 1; kill -KILL -1; kill -USR1 1; sleep 5", timeout=2)
    trace = "import ctypes; libc = ctypes.CDLL(None); print(libc.ptrace(16, 1, 0, 0))"  # PTRACE_ATTACH
    assert (await sandbox.exec(f"python3 -c '{trace}'")).output == "-1\n"
    assert (await sandbox.exec("head -c 1 /proc/1/mem")).exit_code != 0
    assert (await sandbox.exec("echo on")).output == "on\n"


async def test_garbage_in_the_saved_state_does_not_reach_the_harness(sandbox: BubblewrapSandbox) -> None:
    for garbage in (
        "printf 'no end' >&199",
        "printf '/usr\\0echo (\\n#\\n' >&199; kill -9 $BASHPID",
        "exec 199>&-",
    ):
        await sandbox.exec(garbage)
        assert (await sandbox.exec("exit 4")).exit_code == 4


async def test_a_fork_bomb_stays_within_its_limit_and_can_be_ended(small: BubblewrapSandbox) -> None:
    await small.exec(":(){ :|:& };:", timeout=1)
    counted = await small.exec("set -- /proc/[0-9]*; echo $#", timeout=10)
    assert int(counted.output.splitlines()[0]) <= 42
    for _ in range(20):
        await small.exec("kill -KILL -1", timeout=10)
        if (await small.exec("/usr/bin/env true", timeout=0.5)).exit_code == 0:
            break
    assert (await small.exec("ls / | wc -l")).exit_code == 0


async def test_memory_and_file_size_are_limited(small: BubblewrapSandbox) -> None:
    assert "MemoryError" in (await small.exec("python3 -c 'bytearray(300 << 20)'")).output
    assert (await small.exec("head -c 5000000 /dev/zero > big")).exit_code != 0
    assert len(await small.read("big")) == 1 << 20


async def test_scratch_space_is_limited(sandbox: BubblewrapSandbox) -> None:
    full = await sandbox.exec("head -c 70000000 /dev/zero > /dev/shm/big")
    assert "No space left" in full.output


def _proc_files(sandbox: BubblewrapSandbox, name: str) -> list[bytes]:
    """A file of /proc of bwrap and of process 1, as the host sees them."""
    assert sandbox._piped is not None
    return [Path(f"/proc/{pid}/{name}").read_bytes() for pid in (sandbox._piped.pid, sandbox.process_1())]
