"""Finding the engine, saying what is wrong with it, and clearing up after harnesses that were killed."""

import io
import json
import os
import socket
import subprocess
import sys
import tarfile
import tempfile
import textwrap
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from docker_fixture import needed_config

from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.errors import SandboxError
from hermes_lab.sandbox.docker import DockerSandbox
from hermes_lab.sandbox.docker_engine import OWNER_LABEL, describe, engine
from hermes_lab.sandbox.docker_seccomp import seccomp_profile

pytestmark = pytest.mark.anyio
Start = Callable[[str], tuple[subprocess.Popen[str], str, Path]]
Eventually = Callable[[Callable[[], bool]], Awaitable[None]]

HARNESS = """
    import anyio
    from docker_fixture import docker_config
    from hermes_lab.sandbox.docker import DockerSandbox
    async def main():
        async with DockerSandbox(docker_config()) as sandbox:
            print(sandbox._name, sandbox.folders.workspace, flush=True)
            await sandbox.exec("{command}")
            await anyio.sleep_forever()
    anyio.run(main)
"""
AS_AN_ORDINARY_USER = """
    import os, sys, anyio, anyio._backends._asyncio, docker, encodings.idna, subprocess
    from hermes_lab.sandbox import docker as backend
    from hermes_lab.config.sandboxes import SandboxConfig
    backend._script()  # read while we may: a checkout need not be open to others
    group = os.stat(os.environ["DOCKER_HOST"].removeprefix("unix://")).st_gid
    os.setgroups([group]); os.setgid(4242); os.setuid(4242)
    async def main():
        async with backend.DockerSandbox(SandboxConfig(backend="docker", image=sys.argv[1])) as sandbox:
            await sandbox.write("in.txt", b"x")
            ran = await sandbox.exec("id -u; echo y >> in.txt; mkdir d; touch d/f; ls /run/hermes-lab; kill -9 1")
            print(ran.output, await sandbox.read("in.txt"), os.stat(sandbox.folders.workspace / "d/f").st_uid)
            folder = sandbox.folders.workspace
        print(folder.exists())
    anyio.run(main)
"""


@pytest.fixture
def config() -> SandboxConfig:
    return needed_config()


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts another harness that runs a command in a container; its process, the container's name and the folder."""
    started: list[subprocess.Popen[str]] = []

    def start(command: str) -> tuple[subprocess.Popen[str], str, Path]:
        process = _python(HARNESS.format(command=command))
        started.append(process)
        assert process.stdout is not None
        name, folder = process.stdout.readline().split()
        return process, name, Path(folder)

    yield start
    for process in started:
        process.kill()
        process.communicate()


def _python(script: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parent), "TMPDIR": "/tmp"},
    )


def _states(name: str) -> list[str]:
    """The state of a container, if there is one."""
    return [each["State"] for each in engine().containers(all=True, filters={"name": name})]


async def test_what_a_killed_harness_left_is_swept_and_what_a_live_one_has_is_not(
    config: SandboxConfig, start: Start
) -> None:
    killed, left, _ = start("sleep 4000")
    _, kept, folder = start("true")
    killed.kill()
    killed.wait()
    assert _states(left) != []
    sweeper = _python("from hermes_lab.sandbox.docker_engine import engine; engine()")
    assert sweeper.communicate() == ("", "")
    assert _states(left) == []
    assert _states(kept) == ["running"]
    assert folder.is_dir()


async def test_the_death_of_the_harness_ends_an_idle_container(
    config: SandboxConfig, start: Start, eventually: Eventually
) -> None:
    harness, name, _ = start("sleep 4000 &")
    harness.kill()
    harness.wait()
    await eventually(lambda: _states(name) != ["running"])


async def test_labels_name_the_owner_and_nothing_else(config: SandboxConfig) -> None:
    async with DockerSandbox(config) as container:
        labels = engine().inspect_container(container._name)["Config"]["Labels"]
    assert set(labels) == {OWNER_LABEL}
    assert str(os.getpid()) in labels[OWNER_LABEL].split()


@pytest.mark.skipif(os.geteuid() != 0, reason="already an ordinary user")
def test_a_member_of_the_docker_group_has_a_container_too(config: SandboxConfig) -> None:
    out, errors = _python(AS_AN_ORDINARY_USER, config.image).communicate()
    words = out.split()
    assert words[0] == "4242", errors
    assert "Permission denied" in out
    assert words[-3:] == ["b'xy\\n'", "4242", "False"]


def test_the_engine_is_described(config: SandboxConfig) -> None:
    assert describe().startswith("Docker Engine ")


async def test_no_engine_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    with pytest.raises(SandboxError, match=r"apt-get install docker\.io") as caught:
        await DockerSandbox(SandboxConfig()).__aenter__()
    assert "\n" not in str(caught.value)


async def test_an_engine_of_another_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://192.0.2.1:2375")
    with pytest.raises(SandboxError, match="this machine's own"):
        await DockerSandbox(SandboxConfig()).__aenter__()


async def test_a_missing_sdk_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    monkeypatch.setitem(sys.modules, "docker", None)
    with pytest.raises(SandboxError, match="hermes-lab\\[docker\\]"):
        await DockerSandbox(SandboxConfig()).__aenter__()


@pytest.mark.parametrize("security", ["name=rootless", "name=userns"])
async def test_an_engine_with_uids_of_its_own_is_refused(monkeypatch: pytest.MonkeyPatch, security: str) -> None:
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{folder}/docker.sock")
        server.listen()
        threading.Thread(target=_answer_as_an_engine, args=(server, [security]), daemon=True).start()
        monkeypatch.setenv("DOCKER_HOST", f"unix://{folder}/docker.sock")
        with pytest.raises(SandboxError, match="rootless or remaps uids"):
            await DockerSandbox(SandboxConfig()).__aenter__()
        server.shutdown(socket.SHUT_RDWR)


def _answer_as_an_engine(server: socket.socket, security: list[str]) -> None:
    body = json.dumps({"ApiVersion": "1.41", "Version": "0", "SecurityOptions": security}).encode()
    head = (
        f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        with connection:
            if connection.recv(65536):
                connection.sendall(head.encode() + body)


async def test_a_missing_image_is_named_and_never_pulled(config: SandboxConfig) -> None:
    with pytest.raises(SandboxError, match="docker pull hermes-lab-no-such:image"):
        await DockerSandbox(config.model_copy(update={"image": "hermes-lab-no-such:image"})).__aenter__()


async def test_an_image_without_bash_is_named(config: SandboxConfig) -> None:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("nothing"))
    name = f"hermes-lab-test-empty-{os.getpid()}"
    engine().import_image_from_data(archive.getvalue(), repository=name, tag="latest")
    try:
        with pytest.raises(SandboxError, match=f"{name} has no bash") as caught:
            await DockerSandbox(config.model_copy(update={"image": name})).__aenter__()
        assert "\n" not in str(caught.value)
    finally:
        engine().remove_image(name, force=True)


async def test_an_image_without_setpriv_is_named(config: SandboxConfig) -> None:
    client, name = engine(), f"hermes-lab-test-bare-{os.getpid()}"
    made = client.create_container(config.image, ["bash", "-c", "mkdir /only && ln -s /usr/bin/bash /only/bash"])
    client.start(made)
    client.wait(made)
    client.commit(made, repository=name, tag="latest", changes=["ENV PATH=/only"])
    client.remove_container(made)
    try:
        with pytest.raises(SandboxError, match=f"{name} cannot be used: it has no setpriv"):
            await DockerSandbox(config.model_copy(update={"image": name})).__aenter__()
    finally:
        client.remove_image(name, force=True)


def test_the_profile_allows_by_name_only() -> None:
    profile = json.loads(seccomp_profile())
    assert profile["defaultAction"] == "SCMP_ACT_ERRNO"
    named = {name for rule in profile["syscalls"] for name in rule["names"]}
    assert not named & {"io_uring_setup", "keyctl", "bpf", "mount", "unshare", "setns", "userfaultfd", "kexec_load"}
