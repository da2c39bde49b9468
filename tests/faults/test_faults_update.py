"""`hermes-lab update`, with a small stand-in for the package; `test_faults_update_real.py` installs the real one."""

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.command import lab
from fakes.small_lab import SmallLab
from update_kills import kill_updates
from update_world import World

pytestmark = pytest.mark.long
_KILLS = 3


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("update"))


@pytest.fixture
def release(world: World) -> Iterator[str]:
    """A new version in the repository, whatever the tests before left."""
    last = max(int(number) for number in re.findall(r"^0\.(\d+)\.0$", world.lab.git("log", "--format=%s"), re.M))
    version = f"0.{last + 1}.0"
    world.lab.release(version)
    yield version
    world.lab.git("checkout", "--quiet", "main")


def test_an_update_is_switched_to_and_can_be_rolled_back(world: World, release: str) -> None:
    before = world.version
    assert f"now {release}" in world.update()
    assert world.version == release
    assert "already up to date" in world.update()
    assert f"now {before}" in world.update("--rollback")
    assert world.version == before
    installed = list(world.installation.versions.iterdir())
    again = world.run("--json")
    assert world.version == release
    assert sorted(world.installation.versions.iterdir()) == sorted(installed)  # it is not built again
    found = json.loads(again.stdout)
    assert (found["before"]["version"], found["version"]["version"], found["changed"]) == (before, release, True)
    assert again.stderr == ""


def test_only_the_current_version_and_the_one_before_stay(world: World) -> None:
    before = world.version
    world.lab.release("0.90.0")
    sleeper = subprocess.Popen([world.installation.current / "bin" / "python", "-c", "input()"], stdin=subprocess.PIPE)  # type: ignore[operator]
    try:
        world.update()
        world.lab.release("0.91.0")
        assert f"{before}" in world.update()
        assert world.folders == [before, "0.90.0", "0.91.0"]  # a process still runs from the first
    finally:
        sleeper.communicate(b"\n")
    world.update()
    assert world.folders == ["0.90.0", "0.91.0"]


def test_a_version_that_does_not_work_is_not_switched_to(world: World) -> None:
    before, folders = world.version, world.folders
    broken = [{"what": "sandbox", "works": False, "detail": "no bwrap", "needed": True}]
    world.lab.release("0.100.0", doctor=broken)
    assert "sandbox does not work: no bwrap" in world.update(code=3)
    assert world.version == before
    world.lab.release("0.101.0", program="import missing_module\ndef main(): pass\n")
    assert "--version failed" in world.update(code=3)
    assert world.version == before
    assert world.folders == folders


def test_what_no_version_has_on_this_machine_is_only_told(world: World, tmp_path: Path) -> None:
    broken = [{"what": "sandbox", "works": False, "detail": "no bwrap", "needed": True}]
    world.lab.release("0.110.0", doctor=broken)
    first = world.run("--from", str(world.lab.repository), at=tmp_path)
    assert first.returncode == 0
    assert "warning: sandbox: no bwrap" in first.stderr
    assert "now 0.110.0" in first.stderr


def test_extras_and_packages_are_kept_and_lost_ones_are_named(world: World, release: str) -> None:
    world.update("--extras", "more", "--with", "small-own")
    world.lab.release("0.120.0")
    world.update()
    python = world.installation.current / "bin" / "python"  # type: ignore[operator]
    subprocess.run([python, "-c", "import small_more, small_own"], check=True)
    world.lab.release("0.121.0")
    assert "not in the new version: small-more" in world.update("--extras", "")


def test_history_goes_forward_only_unless_it_is_named(world: World, release: str) -> None:
    before = world.version
    world.lab.git("checkout", "--quiet", "--orphan", "rewritten")
    commit = world.lab.release("0.125.0")
    world.lab.git("branch", "--quiet", "--force", "main")
    assert "does not follow the installed commit" in world.update(code=2)
    assert world.version == before
    world.update("--to", "main~0")
    assert not world.installed.ref  # a commit, and no branch to follow
    world.update("--to", commit)
    assert world.version == "0.125.0"
    assert "no branch, tag or commit nothing" in world.update("--to", "nothing", code=2)


def test_after_a_switch_the_skills_and_the_gateway_of_this_installation_follow(
    world: World, release: str, tmp_path: Path
) -> None:
    synced = world.home / "skills" / ".hermes" / "bundled.json"
    synced.parent.mkdir(parents=True)
    synced.write_text("{}")
    status = {"ended": False, "heartbeat": time.time() + 3600, "pid": os.getpid()}
    gateway = world.home / "gateway.json"
    gateway.write_text(json.dumps({**status, "installation": str(world.installation.current)}))
    trial = world.run("--from", str(world.lab.repository), at=tmp_path / "trial").stderr
    assert f"{tmp_path}/trial/bin/hermes-lab skills sync" in trial
    assert f"the gateway runs from {world.installation.current}, and keeps that version" in trial
    assert not (world.home / "asked").exists()
    world.update_itself()
    asked = (world.home / "asked").read_text().splitlines()
    assert asked == [f"{release} skills sync", f"{release} gateway restart --if-older"]
    gateway.write_text(json.dumps({**status, "ended": True}))
    assert "gateway" not in world.update_itself()
    shutil.rmtree(world.home / "skills")
    gateway.unlink()


@pytest.mark.parametrize("closed", ["2>&-", "--json >&-", "<&- >&- 2>&-"])
def test_closed_streams_do_not_end_an_update(world: World, release: str, closed: str) -> None:
    done = subprocess.run(["sh", "-c", f'exec "$@" {closed}', "sh", *world.command], env=world.environment)
    assert done.returncode == 0
    assert world.version == release
    assert world.ended()
    # What is printed is not in the file that got the number of the closed stream.
    assert all(re.match(r"\d{4}-\S+ [0-9a-f]{8}( |$)", line) for line in world.log.splitlines())


def test_packages_that_are_named_again_are_installed_as_they_are_now(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = tmp_path / "small_own-1.0-py3-none-any.whl"
    shutil.copy(world.lab.wheels / wheel.name, wheel)
    monkeypatch.chdir(tmp_path)
    world.update("--with", f"./{wheel.name}")
    monkeypatch.chdir(world.home)  # from which the path would not be found
    world.lab.release("0.130.0")
    world.update()
    with zipfile.ZipFile(wheel, "a") as changed:
        changed.writestr("small_new.py", "")
    python = world.installation.current / "bin" / "python"  # type: ignore[operator]
    assert "already up to date" in world.update()
    assert subprocess.run([python, "-c", "import small_new"], capture_output=True).returncode == 1
    assert "already up to date" not in world.update("--with", str(wheel))
    python = world.installation.current / "bin" / "python"  # type: ignore[operator]
    subprocess.run([python, "-c", "import small_new"], check=True)
    world.update("--with", "")
    assert world.installed.packages == ()


def test_a_branch_that_is_gone_and_a_shallow_clone_are_told(world: World, release: str, tmp_path: Path) -> None:
    world.lab.git("branch", "--quiet", "gone")
    world.update("--to", "gone")
    world.lab.git("branch", "--quiet", "-D", "gone")
    assert "no longer has the branch gone, which is followed; name another with --to" in world.update(code=2)
    world.update("--to", "main")
    clone = tmp_path / "clone"
    fetched = ["git", "clone", "--quiet", "--depth=1", world.lab.repository.as_uri(), str(clone)]
    subprocess.run(fetched, check=True)
    world.update("--from", str(clone))
    world.lab.release("0.140.0")
    shutil.rmtree(clone)
    subprocess.run(fetched, check=True)
    said = world.update(code=2)
    assert f"is a shallow clone; run `git -C {clone} fetch --unshallow`" in said
    assert "rewritten" not in said
    subprocess.run(["git", "-C", str(clone), "fetch", "--quiet", "--unshallow"], check=True)
    world.update()
    assert world.version == "0.140.0"
    world.update("--from", str(world.lab.repository))


def test_a_kill_at_any_moment_leaves_an_old_or_a_new_version(tmp_path: Path) -> None:
    seen = kill_updates(SmallLab(tmp_path), tmp_path, _KILLS, seed=7)
    assert seen["old"] + seen["new"] == _KILLS
    assert seen["of the installed program"] == 1
    assert seen["none"] + seen["first"] == 1
    assert seen["old"]
    assert seen["new"]


def test_a_closed_terminal_does_not_end_an_update(world: World, release: str) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(sys.executable, world.command, world.environment)
    assert os.read(terminal, 8) == b"updating"
    os.close(terminal)  # the kernel sends SIGHUP
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert world.version == release
    assert world.ended()


def test_a_closed_pipe_does_not_end_an_update_and_another_is_refused_meanwhile(world: World, release: str) -> None:
    with subprocess.Popen(world.command, env=world.environment, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith(b"updating")
        process.stderr.close()
        assert "another update is under way" in world.update(code=2)
        assert process.wait() == 0
    assert world.version == release
    assert f"now {release}" in world.log


def test_ctrl_c_leaves_the_old_version_and_nothing_else(world: World, release: str) -> None:
    before, folders = world.version, world.folders
    with subprocess.Popen(world.command, env=world.environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("installing"):
                process.send_signal(signal.SIGINT)
                break
        assert process.wait() == 130
    assert world.version == before
    assert world.folders == folders


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--from", "/nowhere"), "no Git repository and no wheel"),
        (("--from", "https://ann:secret@example.org/lab.git"), "https://example.org/lab.git: remove the password"),
        ((), "say where to get it from"),
        (("--rollback",), "has no version before"),
        (("--rollback", "--to", "0.1.0"), "takes no --from, --to"),
    ],
)
def test_what_makes_no_sense_is_told_in_one_line(tmp_path: Path, args: tuple[str, ...], said: str) -> None:
    done = lab("update", "--at", tmp_path / "at", *args, HERMES_HOME=str(tmp_path))
    assert done.returncode == 2
    assert said in done.stderr
    assert "secret" not in done.stderr
    assert done.stderr.count("\n") == 1
