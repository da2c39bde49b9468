"""What a command in a real container may try against the harness, the engine and the host."""

import json
import os
import platform
import socket
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from docker_fixture import needed_config

from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.errors import ToolError
from hermes_lab.sandbox import docker_engine
from hermes_lab.sandbox.docker import DockerSandbox
from hermes_lab.sandbox.docker_engine import engine

pytestmark = pytest.mark.anyio
SECRET = "hunter2-of-the-host"


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def config() -> SandboxConfig:
    return needed_config()


@pytest.fixture(scope="module")
async def shared(config: SandboxConfig) -> AsyncIterator[DockerSandbox]:
    async with DockerSandbox(config) as shared:
        yield shared


@pytest.fixture
async def container(shared: DockerSandbox) -> AsyncIterator[DockerSandbox]:
    """One container for all tests; what a test left in it goes with the test."""
    yield shared
    await shared.exec("kill -KILL -1", timeout=1)
    await shared.exec("rm -rf /app/data/* /tmp/* /dev/shm/* /dev/mqueue/*; cd /app/data")


def _inspect(container: DockerSandbox) -> dict[str, Any]:
    details: dict[str, Any] = engine().inspect_container(container._name)
    return details


async def test_secrets_of_the_harness_are_nowhere_in_the_container(
    config: SandboxConfig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))  # its proxies would go into every container
    (tmp_path / "config.json").write_text(json.dumps({"proxies": {"default": {"httpProxy": f"http://me:{SECRET}@p"}}}))
    docker_engine._connect.cache_clear()
    try:
        async with DockerSandbox(config) as container:
            result = await container.exec("env; cat /proc/*/environ /proc/*/cmdline | tr '\\0' '\\n'")
            assert "HOME=/app/data" in result.output
            assert SECRET not in result.output
            assert SECRET not in json.dumps(_inspect(container))
    finally:
        engine().close()
        docker_engine._connect.cache_clear()


async def test_the_engine_was_told_every_limit(config: SandboxConfig) -> None:
    limits = {"memory_mb": 300, "processes": 50, "file_mb": 2}
    async with DockerSandbox(config.model_copy(update=limits)) as container:
        host = _inspect(container)["HostConfig"]
        wanted = {
            "NetworkMode": "none",
            "ReadonlyRootfs": True,
            "CapDrop": ["ALL"],
            "PidsLimit": 51,
            "Memory": 300 << 20,
            "MemorySwap": 300 << 20,
            "Privileged": False,
        }
        assert {name: host[name] for name in wanted} == wanted
        assert "no-new-privileges" in host["SecurityOpt"]
        assert host["LogConfig"]["Type"] == "none"
        assert (await container.exec("head -c 5000000 /dev/zero > big")).exit_code != 0
        assert len(await container.read("big")) == 2 << 20


async def test_a_command_has_no_powers(container: DockerSandbox) -> None:
    status = (await container.exec("cat /proc/self/status")).output
    lines = {line.split(":")[0]: line.split()[1:] for line in status.splitlines()}
    uid = "65534" if os.geteuid() == 0 else str(os.geteuid())
    assert set(lines["Uid"]) == {uid}
    assert lines["Groups"] == []
    assert {lines[f"Cap{kind}"][0] for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {"0" * 16}
    assert (lines["NoNewPrivs"], lines["Seccomp"]) == (["1"], ["2"])
    await container.exec("echo x > made")
    made = container.folders.workspace / "made"
    assert made.stat().st_uid == int(uid)


async def test_nothing_but_the_workspace_and_scratch_is_writable(container: DockerSandbox) -> None:
    result = await container.exec(
        "find / -path /proc -prune -o -type d -writable -print 2>/dev/null |"
        " while read -r folder; do touch $folder/x 2>/dev/null && echo $folder; done"
    )
    assert set(result.output.split()) == {"/app/data", "/tmp", "/dev/shm", "/dev/mqueue"}
    for target in ("/usr/bin/evil", "/etc/passwd", "/etc/hosts", "/evil", "/proc/sys/kernel/hostname"):
        assert (await container.exec(f"echo x > {target}")).exit_code != 0


async def test_scratch_space_is_limited(container: DockerSandbox) -> None:
    assert "No space left" in (await container.exec("head -c 70000000 /dev/zero > /dev/shm/big")).output
    scratch = await container.exec("head -c 200000000 /dev/zero > /tmp/a && head -c 200000000 /dev/zero > /tmp/b")
    assert "No space left" in scratch.output


async def test_host_files_cannot_be_read_by_links(container: DockerSandbox) -> None:
    with tempfile.NamedTemporaryFile("w+", dir="/var/tmp") as file:
        file.write(SECRET)
        file.flush()
        os.fchmod(file.fileno(), 0o644)
        result = await container.exec(f"cat {file.name}; ln -s {file.name} soft; cat soft; ln {file.name} hard")
        assert SECRET not in result.output
        for name in ("soft", "hard"):
            with pytest.raises(ToolError):
                await container.read(name)
        with pytest.raises(ToolError):
            await container.write("soft", b"x")
        file.seek(0)
        assert file.read() == SECRET


async def test_no_network(container: DockerSandbox) -> None:
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind(f"\0hermes-lab-test-{os.getpid()}")
        abstract.listen()
        targets = [
            ("AF_INET", ("127.0.0.1", tcp.getsockname()[1])),
            ("AF_INET", ("192.0.2.1", 80)),
            ("AF_UNIX", abstract.getsockname().decode()),
            ("AF_UNIX", "/var/run/docker.sock"),
        ]
        tries = "import socket\n"
        for family, address in targets:
            tries += f"s = socket.socket(socket.{family})\ns.settimeout(2)\nprint(s.connect_ex({address!r}) != 0)\n"
        await container.write("tries.py", tries.encode())
        assert (await container.exec("python3 tries.py")).output == "True\n" * len(targets)
    assert (await container.exec("tail -n +3 /proc/net/dev | cut -d: -f1")).output.split() == ["lo"]


async def test_what_namespaces_do_not_confine_is_refused(container: DockerSandbox) -> None:
    assert platform.machine() in ("x86_64", "aarch64")
    keyctl, clone, unshare = (250, 56, 272) if platform.machine() == "x86_64" else (219, 220, 97)
    tries = f"""
import ctypes, os, socket, subprocess, threading
libc = ctypes.CDLL(None, use_errno=True)
new_user = 0x10000000
calls = (425, 1, ctypes.create_string_buffer(200)), \
    ({keyctl}, 0, -3, 0), ({clone}, new_user | 17, 0), ({unshare}, new_user)
for number, *arguments in calls:
    print(libc.syscall(number, *arguments), os.strerror(ctypes.get_errno()))
for family in (socket.AF_VSOCK, socket.AF_VSOCK | 1 << 32, 38):
    fd = libc.syscall({41 if platform.machine() == "x86_64" else 198}, ctypes.c_long(family), 1, 0)
    print(fd, os.strerror(ctypes.get_errno()))
socket.socketpair(), socket.socket(socket.AF_INET)
threading.Thread(target=print, args=("threads",)).start()
subprocess.run(["true"], check=True)
"""
    await container.write("tries.py", tries.encode())
    result = await container.exec("python3 tries.py")
    assert result.output == "-1 Operation not permitted\n" * 7 + "threads\n"


async def test_the_container_sees_only_itself(container: DockerSandbox) -> None:
    assert len((await container.exec("echo /proc/[0-9]*")).output.split()) == 2  # process 1 and the command
    assert (await container.exec("cat /proc/1/environ /proc/1/root/etc/passwd")).exit_code != 0


async def test_the_exchange_folder_is_out_of_reach(container: DockerSandbox) -> None:
    assert "Permission denied" in (await container.exec("ls /run/hermes-lab")).output
    for path in ("/run/hermes-lab/exchange/command", "/proc/1/cwd/../../run/hermes-lab/exchange", "/proc/1/fd/255"):
        assert (await container.exec(f"cat {path}")).exit_code != 0


async def test_a_status_cannot_be_forged(container: DockerSandbox) -> None:
    forge = "for fd in {0..255}; do { echo 0 >&$fd; echo 0 >/proc/1/fd/$fd; } 2>/dev/null; done"
    assert (await container.exec(f"{forge}; exit 7")).exit_code == 7
    await container.exec(f"(while :; do {forge}; sleep 0.01; done) &")
    assert (await container.exec("sleep 0.2; exit 5")).exit_code == 5
    assert (await container.exec("echo on; exit 6"))[:2] == ("on\n", 6)


async def test_descriptors_of_process_1_are_not_inherited(container: DockerSandbox) -> None:
    own = (await container.exec("ls -l /proc/self/fd; ls -l /proc/1/fd")).output
    assert "pipe" not in own
    assert "session.sh" not in own


async def test_process_1_cannot_be_killed_stopped_or_traced(container: DockerSandbox) -> None:
    await container.exec("kill -KILL 1; kill -STOP 1; kill -TERM 1; kill -USR1 1; kill -KILL -1; sleep 5", timeout=1)
    trace = "import ctypes; libc = ctypes.CDLL(None); print(libc.ptrace(16, 1, 0, 0))"  # PTRACE_ATTACH
    assert (await container.exec(f"python3 -c '{trace}'")).output == "-1\n"
    assert (await container.exec("head -c 1 /proc/1/mem")).exit_code != 0
    assert (await container.exec("echo on")).output == "on\n"


async def test_garbage_in_the_saved_state_does_not_reach_the_harness(container: DockerSandbox) -> None:
    for garbage in ("printf 'no end' >&199", "printf '/usr\\0echo (\\n#\\n' >&199; kill -9 $$", "exec 199>&-"):
        await container.exec(garbage)
        assert (await container.exec("exit 4")).exit_code == 4
