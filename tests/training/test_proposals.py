"""Proposals: files in a folder that anything may have written to."""

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from hermes_lab.errors import ConfigError
from hermes_lab.runners.commands.train_proposals import proposals as command
from hermes_lab.training.config import TrainConfig, load_training
from hermes_lab.training.grpo_config import GrpoConfig
from hermes_lab.training.proposals import (
    find_proposal,
    list_proposals,
    proposals_folder,
    withdraw,
    write_proposal,
)
from hermes_lab.training.rounds import Rounds


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory and a Hermes home of its own; one run folder."""
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))
    (tmp_path / "work" / "runs" / "demo" / "episodes").mkdir(parents=True)
    (tmp_path / "work" / "locks").mkdir()
    (tmp_path / "work" / "locks" / "a.yaml").touch()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def config(name: str = "lessons", **fields: Any) -> TrainConfig:
    """As a proposal holds it: with absolute paths."""
    here = Path.cwd()
    given = {"lock": str(here / "locks/a.yaml"), "data": [str(here / "runs/demo")], "name": name}
    return TrainConfig.model_validate(given | fields)


def files() -> list[str]:
    return sorted(str(path.relative_to(proposals_folder())) for path in proposals_folder().rglob("*") if path.is_file())


def test_a_proposal_is_the_configuration_that_a_person_starts() -> None:
    made = config(parent="runs/adapters/sft-v1")
    proposal = write_proposal("sft", made, "It may help.")
    assert load_training(TrainConfig, [str(proposal.path)]) == made
    assert proposal.command == f"hermes-lab train sft -c {proposal.path}"
    assert (proposal.config, proposal.problem, proposal.started) == (made, "", False)
    assert files() == ["sft/lessons.yaml"]
    assert list_proposals() == [proposal]


@pytest.mark.parametrize("separator", ["\n", "\r", "\r\n", "\x85", "\u2028", "\u2029", "\x0b", "\x0c", "\x1c"])
def test_a_reason_writes_no_field(separator: str) -> None:
    reason = f"Good.{separator}lock: mine.yaml{separator}learning_rate: 1{separator}"
    proposal = write_proposal("sft", config(), reason)
    assert set(yaml.safe_load(proposal.path.read_text())) == {"lock", "data", "name"}
    assert proposal.config == config()


@pytest.mark.parametrize("reason", ["\ud800", "\x00\x1b[2J", "\ufeff", "x" * 9_000])
def test_no_reason_makes_a_file_that_cannot_be_read(reason: str) -> None:
    assert write_proposal("sft", config(), reason).problem == ""


def test_a_name_is_taken_by_a_proposal_of_any_method_in_any_case(here: Path) -> None:
    write_proposal("sft", config("Lessons"), "")
    with pytest.raises(ConfigError, match="is there already"):
        write_proposal("preference", config("lessons"), "")


@pytest.mark.parametrize("name", ["../x", "x" * 65, ".hidden", "a b"])
def test_a_name_is_one(name: str) -> None:
    with pytest.raises(ConfigError, match="is no name"):
        write_proposal("sft", config().model_copy(update={"name": name}), "")


def test_a_name_is_taken_by_a_training(here: Path) -> None:
    (here / "runs/adapters/lessons-v1").mkdir(parents=True)
    with pytest.raises(ConfigError, match="a training 'lessons' is there already"):
        write_proposal("sft", config(), "")


def test_it_counts_as_started_once_a_version_or_its_rounds_are_there(here: Path) -> None:
    write_proposal("sft", config(), "")
    grpo = GrpoConfig.model_validate(
        {"lock": "locks/a.yaml", "name": "g", "rollouts": ["suite.name=ledger"], "out": "runs/g"}
    )
    write_proposal("grpo", grpo, "")
    assert [one.started for one in list_proposals()] == [False, False]
    (here / "runs/adapters/lessons-v1").mkdir(parents=True)
    (here / "runs/g").mkdir()
    assert [one.started for one in list_proposals()] == [True, False], "a folder alone is no training"
    Rounds.begin(here / "runs/g", {}, resume=False)
    assert [one.started for one in list_proposals()] == [True, True]


def test_only_so_many_wait_and_a_withdrawn_one_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermes_lab.training.proposals._MOST", 3)
    for number in range(3):
        write_proposal("sft", config(f"n{number}"), "")
    with pytest.raises(ConfigError, match="3 proposals wait"):
        write_proposal("sft", config("more"), "")
    withdraw(find_proposal("n1"))
    write_proposal("sft", config("more"), "")
    assert "sft/n1.yaml.withdrawn" in files()


def test_what_is_withdrawn_is_gone_and_its_name_is_free() -> None:
    withdraw(write_proposal("sft", config(), ""))
    assert list_proposals() == []
    with pytest.raises(ConfigError, match="no proposal 'lessons'; there are: none"):
        find_proposal("lessons")
    withdraw(write_proposal("sft", config(), ""))
    assert files() == ["sft/lessons.yaml.withdrawn"]


def test_a_proposal_that_appears_meanwhile_is_not_overwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    first = write_proposal("sft", config(), "first")
    before = first.path.read_text()
    monkeypatch.setattr("hermes_lab.training.proposals.list_proposals", list)
    with pytest.raises(ConfigError, match="is there already"):
        write_proposal("sft", config(), "second")
    assert first.path.read_text() == before
    assert files() == ["sft/lessons.yaml"]


HOSTILE = {
    "torn": (b"lock: locks/a.yaml\ndata: [runs/de", "expected"),
    "empty": (b"", "is required"),
    "no text": (b"\xff\xfe\x00", "not a text file"),
    "a list": (b"- lock\n", "expected a mapping"),
    "deep": (b"name: " + b"[" * 5_000 + b"]" * 5_000, "nested too deeply"),
    "large": (b"# " + b"x" * 70_000, "larger than 64 kB"),
    "locked": (b"lock: ''\nname: bad\ndata: [runs/demo]\nlearning_rate: 1\n", "learning_rate is locked"),
    "locked inside": (b"lock: {learning_rate: 1}\nname: bad\ndata: [runs/demo]\n", "learning_rate is locked"),
    "locked section": (
        b"lock: ''\nname: bad\ndata: [runs/demo]\ngrpo: {temperature: 9}\n",
        "grpo.temperature is locked",
    ),
    "unknown": (b"lock: l\nname: bad\ndata: [../../../work/runs/demo]\nshell: reboot\n", "unknown field"),
    "another name": (
        b"lock: ../../../work/locks/a.yaml\nname: good\ndata: [../../../work/runs/demo]\n",
        "is not that of the file",
    ),
    "python": (b"!!python/object/apply:os.system [reboot]\n", "could not determine a constructor"),
    "bomb": (
        b"v0: &v0 {a: 1}\n" + b"".join(b"v%d: &v%d {a: *v%d, b: *v%d}\n" % (n, n, n - 1, n - 1) for n in range(1, 60)),
        "aliases are not read",
    ),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_torn_or_hostile_file_is_listed_with_its_problem_and_hides_no_other(
    kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    good = write_proposal("sft", config(), "")
    content, problem = HOSTILE[kind]
    good.path.with_name("bad.yaml").write_bytes(content)
    bad, other = list_proposals()
    assert problem in bad.problem
    assert (bad.config, bad.started, other) == (None, False, good)
    command()
    assert f"cannot be started: {bad.problem[:20]}" in capsys.readouterr().out


def test_what_is_no_file_is_never_opened(tmp_path: Path) -> None:
    folder = write_proposal("sft", config(), "").path.parent
    os.mkfifo(folder / "pipe.yaml")
    (folder / "link.yaml").symlink_to("/dev/zero")
    (folder / "folder.yaml").mkdir()
    (folder / "-rf.yaml").touch()
    (folder / "a\x1b[2J.yaml").touch()
    assert {one.name: bool(one.problem) for one in list_proposals()} == {
        "lessons": False,
        "pipe": True,
        "link": True,
        "folder": True,
    }


def test_the_command_shows_a_file_without_steering_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    proposal = write_proposal("sft", config(), "Good.")
    with proposal.path.open("a") as file:
        file.write("# \x1b[2J\x1b]0;owned\x07\n")
    command("lessons")
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\x07" not in out
    assert "name: lessons" in out


def test_the_command_lists_how_each_is_started(capsys: pytest.CaptureFixture[str]) -> None:
    command()
    assert "no proposals" in capsys.readouterr().err
    proposal = write_proposal("sft", config(), "Good.")
    command()
    assert capsys.readouterr().out == f"lessons  sft, not started\n  {proposal.command}\n"


def test_a_path_with_a_blank_is_quoted_in_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "my home"))
    assert write_proposal("sft", config(), "").command.endswith("home/proposals/sft/lessons.yaml'")
