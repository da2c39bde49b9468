"""A workspace that stays: the folder of a chat (`sandbox.workspace`)."""

import os
import signal
import sys
import textwrap
from pathlib import Path

import anyio
import pytest
from backend_fixture import Backend

from hermes_lab.config.digest import config_digest
from hermes_lab.config.home_file import load_home_config
from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.config.schema import RunConfig
from hermes_lab.config.sources import load_config
from hermes_lab.errors import ConfigError
from hermes_lab.sandbox import open_sandbox
from hermes_lab.sandbox.extras import Extras
from hermes_lab.sandbox.folders import remove_tree
from hermes_lab.sandbox.persistent import open_workspace

pytestmark = pytest.mark.anyio


def configured(backend_here: Backend, folder: Path, **limits: int) -> SandboxConfig:
    return backend_here.config.model_copy(update={"workspace": str(folder), **limits})


def owners(folder: Path) -> set[int]:
    return {path.lstat().st_uid for path in (folder, *folder.rglob("*"))}


async def run(config: SandboxConfig, home: Path, *commands: str) -> list[str]:
    said = []
    async with (
        open_workspace(config, home) as folder,
        open_sandbox(config, Extras(workspace=folder)) as sandbox,
    ):
        for command in commands:
            said.append((await sandbox.exec(command)).output)
    return said


async def test_files_stay_and_are_there_again(backend_here: Backend, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "data"
    config = configured(backend_here, folder)
    await run(config, tmp_path / "home", "mkdir -p a/b; echo one > a/b/file; ln -s a/b link; chmod 600 a/b/file")
    assert (folder / "a/b/file").read_text() == "one\n"
    assert owners(folder) == {os.geteuid()}
    (folder / "mine").write_text("two\n")
    assert await run(config, tmp_path / "home", "cat mine link/file", "rm -r a mine link") == ["two\none\n", ""]
    assert list(folder.iterdir()) == []


async def test_the_harness_reads_and_writes_in_it_too(backend_here: Backend, tmp_path: Path) -> None:
    config = configured(backend_here, tmp_path / "data")
    async with (
        open_workspace(config, tmp_path / "home") as folder,
        open_sandbox(config, Extras(workspace=folder)) as sandbox,
    ):
        await sandbox.write("below/file", b"written")
        async with sandbox.fork() as second:
            assert (await second.exec("cat below/file; echo more >> below/file")).output == "written"
        assert await sandbox.read("below/file") == b"writtenmore\n"
    assert (tmp_path / "data/below/file").read_text() == "writtenmore\n"
    assert owners(tmp_path / "data") == {os.geteuid()}


async def test_nothing_else_of_the_machine_is_reached(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "data").mkdir()
    (tmp_path / "data/up").symlink_to("../secret")
    config = SandboxConfig(workspace=str(tmp_path / "data"))
    (said,) = await run(config, tmp_path / "home", f"cat up ../secret {tmp_path}/secret; ls /")
    assert "secret\n" not in said.replace("No such file", "")
    assert said.count("No such file") == 3


async def test_the_limit_counts_what_is_there(backend_here: Backend, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/large").write_bytes(os.urandom(12 << 20))
    with pytest.raises(ConfigError, match=r"sandbox\.workspace: .*data holds 12 MB, more than sandbox\.disk_mb=10"):
        await run(configured(backend_here, tmp_path / "data", disk_mb=10), tmp_path / "home", "true")
    said = await run(
        configured(backend_here, tmp_path / "data", disk_mb=20),
        tmp_path / "home",
        "head -c 12000000 /dev/urandom > more; sleep 3",
    )
    assert "larger than 20 MB" in said[0]


async def test_whatever_the_agent_leaves_belongs_to_the_person(backend_here: Backend, tmp_path: Path) -> None:
    config = configured(backend_here, tmp_path / "data")
    odd = (
        "mkfifo pipe; mkdir -m 500 closed; touch $'\\xff name' -- -rf; ln a b 2>/dev/null; ln -- -rf twice; ln -s / all"
    )
    deep = "for n in $(seq 1200); do mkdir d; cd d || exit; done"
    await run(config, tmp_path / "home", f"{odd}; {deep}")
    left = {entry.name for entry in (tmp_path / "data").iterdir()}
    assert {"pipe", "closed", "-rf", "twice", "all", "d"} <= left
    assert {entry.lstat().st_uid for entry in (tmp_path / "data").iterdir()} == {os.geteuid()}
    with pytest.raises(ConfigError, match="nested too deep"):
        await run(config, tmp_path / "home", "true")
    remove_tree(tmp_path / "data")


async def test_two_chats_do_not_share_a_folder(tmp_path: Path) -> None:
    config = SandboxConfig(workspace=str(tmp_path / "work" / "data"))
    async with open_workspace(config, tmp_path / "home"):
        with pytest.raises(ConfigError, match=r"another chat works in .*data"):
            async with open_workspace(config, tmp_path / "home"):
                pass
        for other in (tmp_path / "work" / "data" / "below", tmp_path / "work" / "data", tmp_path / "work"):
            with pytest.raises(ConfigError, match="another chat works in"):
                async with open_workspace(SandboxConfig(workspace=str(other)), tmp_path / "elsewhere" / "home"):
                    pass
        (tmp_path / "beside").mkdir()
        async with open_workspace(SandboxConfig(workspace=str(tmp_path / "beside")), tmp_path / "home"):
            pass
    async with open_workspace(config, tmp_path / "home") as again:
        assert again == tmp_path / "work" / "data"


@pytest.mark.parametrize(
    ("folder", "reason"),
    [
        ("/", "belongs to the system"),
        ("/proc", "belongs to the system"),
        ("/etc/ssh", "belongs to the system"),
        ("~", "is your home folder"),
        ("~/.ssh", "holds settings"),
        ("~nosuch/work", "Could not determine home directory"),
        ("{home}", "belongs to the Hermes home"),
        ("{home}/..", "belongs to the Hermes home"),
        ("{home}/skills/one", "belongs to the Hermes home"),
        ("{home}/file", "is not a folder"),
        ("{home}/file/below", "cannot be created: Not a directory"),
    ],
)
async def test_a_folder_that_is_no_workspace_is_refused(folder: str, reason: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "file").touch()
    with pytest.raises(ConfigError, match=rf"^sandbox\.workspace: .*{reason}"):
        async with open_workspace(SandboxConfig(workspace=folder.format(home=home)), home):
            pass


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's commands run as another user")
async def test_after_a_kill_the_next_chat_gives_the_files_back(tmp_path: Path) -> None:
    script = f"""
        import os, signal, anyio
        from pathlib import Path
        from hermes_lab.config.sandboxes import SandboxConfig
        from hermes_lab.sandbox.persistent import open_workspace
        async def main():
            async with open_workspace(SandboxConfig(workspace="{tmp_path}/data"), Path("{tmp_path}/home")):
                os.kill(os.getpid(), signal.SIGKILL)
        anyio.run(main)
    """
    (tmp_path / "data").mkdir()
    (tmp_path / "data/file").touch()
    (tmp_path / "other").touch()
    os.link(tmp_path / "other", tmp_path / "data/linked")
    done = await anyio.run_process([sys.executable, "-c", textwrap.dedent(script)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert (tmp_path / "data/file").stat().st_uid == 65534
    assert (tmp_path / "other").stat().st_uid == 0  # it stands outside, too
    async with open_workspace(SandboxConfig(workspace=str(tmp_path / "data")), tmp_path / "home"):
        pass
    assert owners(tmp_path / "data") == {0}


def test_batches_refuse_it_with_the_line(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("sandbox:\n  workspace: data\n")
    with pytest.raises(ConfigError, match=r"run\.yaml:2: sandbox\.workspace is for chats"):
        load_config([str(tmp_path / "run.yaml")])
    with pytest.raises(ConfigError, match=r"^override sandbox\.workspace=data: sandbox\.workspace is for chats"):
        load_config(["sandbox.workspace=data"])
    assert load_home_config(tmp_path, ["sandbox.workspace=data"]).sandbox.workspace


def test_digests_of_earlier_runs_stay() -> None:
    content = RunConfig().model_dump(mode="json")
    del content["sandbox"]["workspace"]
    assert config_digest(RunConfig()) == config_digest(RunConfig.model_validate(content))
