"""`hermes-lab update` where an installation, its machine or its log is damaged."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from update_world import World

pytestmark = pytest.mark.long
LACKING: list[dict[str, object]] = [{"what": "sandbox", "works": False, "detail": "no bwrap", "needed": True}]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("update"))


@pytest.fixture
def number(world: World) -> Iterator[int]:
    """The number of the next version."""
    yield (
        max(int(each) for each in re.findall(r"^0\.(\d+)\.0$", world.lab.git("log", "--all", "--format=%s"), re.M)) + 1
    )
    world.lab.git("checkout", "--quiet", "main")


def current(world: World) -> Path:
    folder = world.installation.current
    assert folder is not None
    return folder


def program(folder: Path) -> Path:
    """The module of the program in the folder of a version."""
    (module,) = folder.glob("lib/python*/site-packages/small_lab.py")
    return module


def break_python(world: World) -> None:
    """As after an upgrade of the system's Python."""
    python = current(world) / "bin" / "python"
    python.unlink()
    python.symlink_to("/nowhere/python3")


def test_a_missing_link_to_the_program_is_made_again(world: World) -> None:
    """An older first update may have been killed before it made it."""
    world.installation.program.unlink()
    assert "already up to date" in world.update()
    assert world.version


def test_a_current_version_whose_python_is_gone_is_replaced_by_the_next(world: World, number: int) -> None:
    break_python(world)
    world.lab.release(f"0.{number}.0", doctor=LACKING)
    said = world.update()
    assert "does not start; it is replaced" in said
    assert "warning: sandbox: no bwrap" in said
    assert "cannot be listed" in said
    assert world.version == f"0.{number}.0"
    assert "--version failed" in world.update("--rollback", code=3)
    assert world.version == f"0.{number}.0"


def test_a_current_version_that_does_not_start_is_not_up_to_date(world: World) -> None:
    break_python(world)
    assert "already up to date" not in (said := world.update())
    assert "installing" in said
    assert world.version
    assert "already up to date" in world.update()


def test_a_crash_of_the_old_doctor_is_no_fault_of_the_new_version(world: World, number: int) -> None:
    module = program(current(world))
    module.write_text(module.read_text().replace("print(json.dumps(DOCTOR))", "1 / 0"))
    world.lab.release(f"0.{number}.0", doctor=LACKING)
    assert "warning: sandbox: no bwrap" in world.update()
    assert world.version == f"0.{number}.0"


_REFUSES = """
import sys
from importlib.metadata import version

import small_need

def main():
    match sys.argv[1:]:
        case ["--version"]:
            print("hermes-lab", version("hermes-lab"))
        case ["doctor", "--json"]:
            print("[]")
        case ["sessions", "list"]:
            sys.exit("A conversation\\nhermes-lab: error: database version 9 is newer than 8")
"""


def test_a_rollback_says_which_databases_the_version_before_does_not_open(world: World, number: int) -> None:
    before, older = world.version, program(current(world))
    world.lab.release(f"0.{number}.0")
    world.update()
    older.write_text(_REFUSES)
    assert "warning" not in world.update("--rollback")  # there is no database yet
    world.update()
    for name in ("sessions.db", "cron.db"):
        (world.home / name).touch()
    said = world.update("--rollback")
    assert re.findall(r"warning: (0\.\d+\.0) \(.*?\) does not open (\S+): (.*?);", said) == [
        (before, "sessions.db", "hermes-lab: error: database version 9 is newer than 8")
    ]
    assert world.version == before
    assert "A conversation" not in world.log
    for name in ("sessions.db", "cron.db"):
        (world.home / name).unlink()


def test_a_damaged_record_is_repaired_by_a_new_version(world: World) -> None:
    damaged = current(world)
    (damaged / "install.json").write_bytes(b"")
    assert "is damaged" in world.update(code=2)
    assert "now damaged" in world.update("--from", str(world.lab.repository))
    assert world.version
    assert current(world) != damaged
    world.update()
    assert not damaged.exists()


def test_a_branch_is_followed_also_if_nothing_new_was_built(world: World, number: int) -> None:
    world.update()
    world.lab.git("checkout", "--quiet", "-b", "next")
    (world.lab.repository / "VERSION").write_text("changed")
    said = world.update("--to", "next")
    assert "changes that are not committed" in said
    assert "already up to date" in said
    world.lab.release(f"0.{number}.0")
    world.lab.git("checkout", "--quiet", "main")
    world.update()
    assert world.version == f"0.{number}.0"
    world.update("--to", "main")
    assert world.version != f"0.{number}.0"
    assert "installing" not in world.update("--to", "next")  # it is still there
    assert world.version == f"0.{number}.0"
    world.lab.git("branch", "--quiet", "--force", "next", "main")
    assert "to install it all the same: --to next" in world.update(code=2)
    world.update("--to", "main")


def test_a_log_that_cannot_be_written_changes_nothing_but_one_line(world: World, number: int) -> None:
    world.lab.release(f"0.{number}.0")
    log = world.home / "logs" / "update.log"
    log.rename(log.with_name("kept"))
    log.symlink_to("/dev/full")
    try:
        said = world.update()
    finally:
        log.unlink()
        log.with_name("kept").rename(log)
    assert said.count("No space left on device") == 1
    assert f"now 0.{number}.0" in said
    assert world.version == f"0.{number}.0"


def test_an_unknown_extra_is_refused_before_anything_is_installed(world: World) -> None:
    before = world.folders
    said = world.update("--extras", "mroe", code=2)
    assert "has no extra 'mroe'; did you mean more?" in said
    assert "installing" not in said
    assert world.folders == before


def test_another_python_builds_a_new_version_of_the_same_commit(world: World) -> None:
    """What is built is the wheel, not whatever lies in the folder of the person."""
    record = current(world) / "install.json"
    record.write_text(re.sub(r'"python": "[^"]*"', '"python": "3.9.0"', record.read_text()))
    said = subprocess.run(world.command, env=world.environment, capture_output=True, text=True, cwd=os.sep)
    assert said.returncode == 0, said.stderr
    assert "installing" in said.stderr
