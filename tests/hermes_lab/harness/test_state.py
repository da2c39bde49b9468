"""A program's own memory, carried from episode to episode (`agent.carry_state`)."""

import gzip
from collections.abc import Callable
from pathlib import Path, PurePosixPath

import pytest
from typer.testing import CliRunner

from hermes_lab.errors import ConfigError, StoreError, ToolError
from hermes_lab.harness import state
from hermes_lab.harness.state import States, pack_state, unpack_state
from hermes_lab.runners.cli import app
from hermes_lab.sandbox.workspace import WorkspaceFolder
from hermes_lab.types import Episode

Experiment = Callable[..., list[Episode]]
CARRIED = {"agent": {"carry_state": True}, "learning": {"arms": ["off", "on"], "heldout": {"tasks": 1, "every": 1}}}


def past(episode: Episode) -> str:
    """What the program told its model of earlier episodes."""
    assert episode.trajectory is not None, episode.error
    return episode.trajectory.messages[0].content.partition("Past: ")[2]


def of(episodes: list[Episode], arm: str, phase: str = "learn") -> list[Episode]:
    return [each for each in episodes if each.lane.startswith(arm) and each.phase == phase]


def test_arm_on_alone_carries_it_and_heldout_tasks_add_nothing(experiment: Experiment, tmp_path: Path) -> None:
    episodes = experiment(**CARRIED)
    on, heldout = of(episodes, "on"), of(episodes, "on", "heldout")
    assert [past(each).count(";") for each in on] == [0, 1, 2]
    assert [past(each).count(";") for each in heldout] == [0, 1, 2, 3]
    assert [past(each) for each in of(episodes, "off")] == ["", "", ""]
    uses = [each.program for each in on]
    assert [use.state_before for use in uses if use] == ["", *(use.state_after for use in uses[:-1] if use)]
    kept = {path.name for path in (tmp_path / "run" / "homes").iterdir()}
    assert kept == {use.state_after for use in uses if use}


def test_without_it_every_episode_begins_anew(experiment: Experiment, tmp_path: Path) -> None:
    assert {past(each) for each in experiment(learning={"arms": ["off", "on"]})} == {""}
    assert not (tmp_path / "run" / "homes").exists()


def keep_first_round(run: Path) -> None:
    (log,) = (run / "episodes").iterdir()
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(line for line in lines if b'"round":0' in line))


def test_a_resumed_run_goes_on_from_the_memory_of_the_last_episode(experiment: Experiment, tmp_path: Path) -> None:
    whole = experiment(**CARRIED)
    keep_first_round(tmp_path / "run")
    again = experiment(**CARRIED, resume=True)
    assert [past(each) for each in again] == [past(each) for each in whole]


def test_a_missing_archive_is_an_errored_episode(experiment: Experiment, tmp_path: Path) -> None:
    experiment(**CARRIED)
    keep_first_round(tmp_path / "run")
    for archive in (tmp_path / "run" / "homes").iterdir():
        archive.write_bytes(gzip.compress(b"other"))
    errors = [each.error for each in experiment(**CARRIED, resume=True) if each.status == "errored"]
    assert errors
    assert all(error and error.kind == "store" and "was changed" in error.message for error in errors)


def test_replay_reads_it_and_keeps_none(experiment: Experiment, tmp_path: Path) -> None:
    episodes = experiment(**CARRIED)
    before = sorted((tmp_path / "run" / "homes").iterdir())
    done = CliRunner().invoke(app, ["replay", str(tmp_path / "run"), "--episode", of(episodes, "on")[-1].key])
    assert done.exit_code == 0, done.output
    assert "are the same" in done.output
    assert sorted((tmp_path / "run" / "homes").iterdir()) == before


@pytest.mark.parametrize(
    ("program", "more", "says"),
    [
        ("fake", {"arms": ["off", "on", "placebo"]}, "not with learning.arms=placebo"),
        ("fake", {"arms": ["on", "oracle"]}, "not with learning.arms=oracle"),
        ("fake", {"arms": ["off"]}, "only arm `on`"),
        ("fake", {"arms": ["off", "on"], "round_size": 2}, "needs learning.round_size=1"),
        ("asked", {"arms": ["off", "on"]}, "asked has no memory besides its skills and notes"),
        ("", {"arms": ["off", "on"]}, "`carry_state` has no effect while agent.program is empty"),
    ],
)
def test_what_cannot_be_carried_is_refused(experiment: Experiment, program: str, more: dict, says: str) -> None:  # type: ignore[type-arg]
    with pytest.raises(ConfigError, match=says):
        experiment(program, agent={"carry_state": True}, learning=more)


def home(folder: Path) -> WorkspaceFolder:
    folder.mkdir()
    return WorkspaceFolder(folder, seen=PurePosixPath("/app/home"))


def test_only_matching_files_are_packed_and_come_back_as_they_were(tmp_path: Path) -> None:
    full, empty = home(tmp_path / "full"), home(tmp_path / "empty")
    kept = {
        "a/state.db": b"\x00\xff" * 5000,
        "a/state.db-wal": b"wal",
        "p/x/memory/M.md": b"m",
        "p/y/z/memory/n/o": b"",
    }
    for path, data in {**kept, "a/config.yaml": b"c", "p/x/log.jsonl": b"l", "state.db": b"elsewhere"}.items():
        full.write(path, data)
    (tmp_path / "full" / "a" / "state.db.link").symlink_to("/etc/passwd")
    patterns = ("a/state.db*", "p/*/memory/*", "nowhere/*")
    data = pack_state(full, patterns)
    assert data == pack_state(full, patterns)
    unpack_state(empty, data)
    assert {path: empty.read(path, 100_000) for path in empty.files()} == kept
    assert pack_state(full, ("nowhere/*",)) == b""


def test_more_than_can_be_carried_leaves_the_memory_as_it_was(
    experiment: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "MAX_BYTES", 60)
    on = of(experiment(**CARRIED), "on")
    assert [past(each).count(";") for each in on] == [0, 1, 1]
    assert [bool(each.program and each.program.unread) for each in on] == [False, True, True]


def test_an_archive_that_leads_out_of_the_home_or_is_none_is_refused(tmp_path: Path) -> None:
    states = States(tmp_path / "homes")
    with pytest.raises(StoreError, match="cannot be restored"):
        unpack_state(home(tmp_path / "home"), b"no archive")
    with pytest.raises(StoreError, match="No such file"):
        states.restore(home(tmp_path / "new"), "absent.tar.gz")
    with pytest.raises(ToolError):
        pack_state(home(tmp_path / "other"), ("../*",))
