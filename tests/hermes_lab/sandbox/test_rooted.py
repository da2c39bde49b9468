"""Sandboxes with a writable root and a working directory of the task's own, in bubblewrap and in a real container."""

import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from docker_fixture import needed_config

from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.errors import ConfigError, SandboxError, ToolError
from hermes_lab.protocols import Sandbox
from hermes_lab.sandbox import open_sandbox
from hermes_lab.sandbox.bubblewrap import BubblewrapSandbox
from hermes_lab.sandbox.launch import find_bwrap
from hermes_lab.types import Root

pytestmark = pytest.mark.anyio
VARIABLES = {"GIVEN": "a b"}


@pytest.fixture(params=["bubblewrap", "docker"])
def opened(request: pytest.FixtureRequest) -> Callable[..., Sandbox]:
    config = SandboxConfig() if request.param == "bubblewrap" else needed_config()

    def opened(workdir: str = "/srv/work", **limits: int) -> Sandbox:
        root = Root(workdir=workdir, image=config.image, environment=VARIABLES)
        return open_sandbox(config.model_copy(update=limits), root=root)

    return opened


@pytest.fixture
async def rooted(opened: Callable[..., Sandbox]) -> AsyncIterator[Sandbox]:
    async with opened() as sandbox:
        yield sandbox


async def _output(sandbox: Sandbox, command: str) -> str:
    return (await sandbox.exec(command)).output


async def test_commands_are_root_in_the_working_directory_with_the_variables(rooted: Sandbox) -> None:
    assert await _output(rooted, 'pwd; id -u; echo "$GIVEN|$HOME"') == "/srv/work\n0\na b|/root\n"
    assert (await rooted.exec('pwd; echo "$GIVEN"', fresh=True)).output == "/srv/work\na b\n"
    assert (rooted.workspace_path, rooted.skills_path) == ("/srv/work", "/opt/hermes-lab/provided")


async def test_everything_can_be_written_and_nothing_of_it_is_there_for_the_next(
    opened: Callable[..., Sandbox],
) -> None:
    folders = "/data /usr/local/bin /usr/bin /etc /var /opt/x /home/a"
    write = f"for f in {folders}; do mkdir -p $f && echo x >$f/.new || exit 1; done"
    async with opened() as one, opened() as other:
        assert (await one.exec(write)).exit_code == 0
        assert await _output(one, "cat /usr/bin/.new /data/.new") == "x\nx\n"
        assert (await one.exec("rm /usr/bin/cut && ln -s /bin/true /usr/bin/cut && cut")).exit_code == 0
        assert (await other.exec("ls /data/.new /usr/bin/.new /etc/.new /home/a")).exit_code != 0
        assert await _output(other, "echo a:b | cut -d: -f2") == "b\n"
    assert ".new" not in os.listdir("/usr/bin")  # noqa: PTH208


async def test_files_go_both_ways_and_others_are_out_of_reach(rooted: Sandbox) -> None:
    await rooted.write("in/a.txt", b"one\n")
    assert await _output(rooted, "echo two >>in/a.txt && cat in/a.txt") == "one\ntwo\n"
    assert await rooted.read("/srv/work/in/a.txt") == b"one\ntwo\n"
    with pytest.raises(ToolError, match="outside the workspace; give a path below /srv/work"):
        await rooted.read("/etc/passwd")
    await rooted.provide("b", b"given")
    assert await _output(rooted, "cat /opt/hermes-lab/provided/b; echo x >/opt/hermes-lab/provided/b") != "given"
    assert await _output(rooted, "cat /opt/hermes-lab/provided/b") == "given"


async def test_root_has_no_power(rooted: Sandbox) -> None:
    for command in (
        "cat /proc/1/environ",
        "readlink /proc/1/fd/0",
        "cat /proc/1/fd/255",
        "ls /run/hermes-lab/",
        "mount -t tmpfs none /mnt",
        "unshare -m true",
        "mknod /dev/sda b 8 0",
        "chroot / true",
        "cat /opt/hermes-lab/exchange/command",
        "grep -q CapEff.*[1-9a-f] /proc/self/status",
    ):
        assert (await rooted.exec(command)).exit_code != 0, command
    assert (await rooted.exec("kill -KILL 1; kill -STOP 1; echo alive")).output == "alive\n"


@pytest.mark.parametrize("workdir", ["/app", "/root", "/tmp", "/tmp/a", "/home/user/x", "/usr/src/app", "/opt/hermes"])
async def test_any_folder_can_be_the_working_directory(workdir: str) -> None:
    async with open_sandbox(SandboxConfig(), root=Root(workdir=workdir)) as sandbox:
        assert await _output(sandbox, "pwd; ls -A; touch a && ls") == f"{workdir}\na\n"
        await sandbox.write("b", b"")
        assert await _output(sandbox, f"ls {workdir}") == "a\nb\n"


async def test_what_is_written_outside_counts_towards_the_disk() -> None:
    config = SandboxConfig(disk_mb=5)
    async with open_sandbox(config, root=Root(workdir="/app")) as sandbox:
        filled = await sandbox.exec("for n in {1..9}; do head -c 1000000 /dev/zero >/data-$n; done; sleep 3")
        assert "the workspace is larger than 5 MB" in filled.output


async def test_mounts_are_read_only_at_their_own_paths() -> None:
    shown = "/usr/share/doc"
    async with open_sandbox(SandboxConfig(), root=Root(workdir="/app", mounts=(shown,))) as sandbox:
        assert (await sandbox.exec(f"test -d {shown} && ! touch {shown}/x")).exit_code == 0


async def test_nothing_is_left_of_it_on_the_host() -> None:
    async with BubblewrapSandbox(SandboxConfig(), root=Root(workdir="/app")) as sandbox:
        await sandbox.exec("mkdir -p /a/b; chmod 0 /a/b; touch /usr/bin/x; rm /usr/bin/cut")
        folders = sandbox.folders
        assert folders.root is not None
        assert (folders.root / "upper/a/b").is_dir()
        assert os.geteuid() != 0 or (folders.root / "upper/a").stat().st_uid == 65534
    assert not folders.root.exists()
    assert not folders.workspace.exists()


async def test_it_has_no_sibling_and_no_local_backend() -> None:
    root = Root(workdir="/app")
    async with open_sandbox(SandboxConfig(), root=root) as sandbox:
        with pytest.raises(SandboxError, match="no second sandbox over it"):
            sandbox.fork()
    with pytest.raises(ConfigError, match="local has no system for a task to change"):
        open_sandbox(SandboxConfig(backend="local", allow_local=True), root=root)


def test_an_old_bubblewrap_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "bwrap"
    old.write_text("#!/bin/sh\necho --disable-userns\n")
    old.chmod(0o755)
    assert find_bwrap(str(tmp_path)) == str(old)
    assert find_bwrap(str(tmp_path), overlays=True) != str(old)
    find_bwrap.cache_clear()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SandboxError, match=r"no bubblewrap 0\.11 or newer, which a task with"):
        find_bwrap(str(tmp_path), overlays=True)
    find_bwrap.cache_clear()
