"""`hermes-lab show`: a run's episodes as a person reads them."""

import json
from pathlib import Path

import pytest
from fakes.episodes import conversation, episode, trajectory, write_manifest, write_run
from msgspec import structs

from hermes_lab.errors import ConfigError
from hermes_lab.runners.cli import app
from hermes_lab.runners.engine.lane_history import MergedNotes, RoundMerge, Write, keep_merge
from hermes_lab.skills.library import Library
from hermes_lab.types import Child, EpisodeError, Review, SkillTrace, SkillUse, SkillWrite, Verdict

WRITE = SkillWrite("create", "tea", "text", "review", "e", "m", "before", "after")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    told = conversation("Brew tea")
    asked = Review(trajectory(told, since=3), (WRITE,), 1.5)
    traces = (SkillTrace("tea", True, "trigger", listed=True, loaded=True, followed=False),)
    used = SkillUse("abcdef0123456789", loaded=("tea",), traces=traces)
    down = EpisodeError("model", "it is \x1b down")
    child = Child("Fetch water", 1, trajectory(told))
    write_manifest(tmp_path, command="learn", wanted=4)
    return write_run(
        tmp_path,
        episode("b", lane="on-r0-w0", round=1, success=True, skills=used),
        episode("a", lane="on-r0-w0", success=False, verdicts=(Verdict(0, False), Verdict(1, True)), review=asked),
        episode("c", lane="off-r0-w0", status="errored", trajectory=None, error=down),
        episode("d", lane="off-r0-w0", round=1, success=None, children=(child,)),
    )


def show(capsys: pytest.CaptureFixture[str], *args: object) -> str:
    assert app(["show", *map(str, args)], standalone_mode=False) in (None, 0)
    return capsys.readouterr().out


def test_episodes_stand_lane_by_lane_in_the_order_of_rounds(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [" ".join(line.split()) for line in show(capsys, run).splitlines()[1:]]
    assert lines == [
        "0 off-r0-w0 0 errored: model - - c it is down",
        "1 off-r0-w0 1 not judged - - d",
        "2 on-r0-w0 0 solved after feedback - create tea a",
        "3 on-r0-w0 1 solved abcdef01 tea - b",
    ]
    assert len(show(capsys, run, "--lane", "on").splitlines()) == 3
    rows = json.loads(show(capsys, run, "--json"))["episodes"]
    assert [(row["number"], row["result"], row["wrote"]) for row in rows[2:]] == [
        (2, "solved after feedback", ["create tea"]),
        (3, "solved", []),
    ]
    assert rows[0]["error"] == "it is \x1b down"


def test_how_an_episode_ended_is_in_its_line_unless_it_was_answered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_manifest(tmp_path, command="run", wanted=3)
    stops = {"a": "length", "b": "unparsed", "c": "answered"}
    made = [
        episode(
            name,
            round=number,
            success=name == "c",
            verdicts=(Verdict(float(name == "c"), name == "c"),),
            trajectory=trajectory(conversation(name), stop_reason=stop),
        )
        for number, (name, stop) in enumerate(stops.items())
    ]
    run = write_run(tmp_path, *made)
    lines = [" ".join(line.split()) for line in show(capsys, run).splitlines()[1:]]
    assert [line.split(" - ")[0] for line in lines] == [
        "0 lane 0 not solved, reply cut (length)",
        "1 lane 1 not solved, tool call not parsed (unparsed)",
        "2 lane 2 solved",
    ]
    assert [row["stop_reason"] for row in json.loads(show(capsys, run, "--json"))["episodes"]] == list(stops.values())


def test_a_rounds_border_stands_after_its_round_and_marks_what_it_dropped(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dropped = Write("create", "tea", "review", "made-up|a|on-r0-w0|0|0", "m", won="made-up|z|on-r0-w0|0|0")
    merge = RoundMerge(
        round=0,
        before="0" * 16,
        after="abcdef0123456789",
        merged=(structs.replace(dropped, episode=dropped.won, won=""),),
        dropped=(dropped,),
        deprecated=(),
        emptied=False,
        notes=MergedNotes("", "", 0, 0),
    )
    keep_merge(run, "on-r0-w0", merge)
    lines = [" ".join(line.split()) for line in show(capsys, run, "--lane", "on").splitlines()[1:]]
    assert lines == [
        "2 on-r0-w0 0 solved after feedback - create tea (dropped) a",
        "-- on-r0-w0 0->1 library 00000000 -> abcdef01: created tea; dropped 1 later write of tea",
        "3 on-r0-w0 1 solved abcdef01 tea - b",
    ]
    assert "before -> after; dropped when the round was merged, since made-up|z|" in show(capsys, run, "-e", "2")
    assert "--" not in show(capsys, run, "--lane", "off")
    (told,) = json.loads(show(capsys, run, "--json"))["round_merges"]["on-r0-w0"]
    assert told["dropped"][0]["won"] == dropped.won
    history = ["skills", "history", f"{run}:on-r0-w0"]
    Library().save(run / "skills" / (empty := Library().snapshot))
    (run / "lanes" / "on-r0-w0" / "home").mkdir()
    (run / "lanes" / "on-r0-w0" / "home" / "skills").symlink_to(run / "skills" / empty)
    assert app(history, standalone_mode=False) in (None, 0)
    assert " ".join(capsys.readouterr().out.split()).endswith(lines[1].partition("on-r0-w0 ")[2])
    assert app([*history, "--json"], standalone_mode=False) in (None, 0)
    assert json.loads(capsys.readouterr().out)["round_merges"] == [told]


def test_one_episode_is_shown_whole(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = show(capsys, run, "--episode", "2")
    assert text.index("[user]\nDo a") < text.index("[verdict] score 0") < text.index("======== review, 1.5 s")
    assert "[write] create tea by review: before -> after" in text
    assert "[skill] tea: eligible: yes, listed: yes, loaded: yes, followed: no" in show(capsys, run, "-e", "3")
    assert "======== child agent: Fetch water" in show(capsys, run, "-e", "1")
    errored = show(capsys, run, "-e", "0")
    assert "it is" in errored
    assert "\x1b" not in errored


def test_an_error_is_one_line_in_the_list_and_whole_with_its_traceback_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_manifest(tmp_path, command="run", wanted=1)
    bug = EpisodeError(
        "verifier", "KeyError: 'm' (/suite.py:7)\nand more", "Traceback (most recent call last):\n  File"
    )
    run = write_run(tmp_path, episode("a", status="errored", trajectory=None, error=bug))
    (_, line) = show(capsys, run).splitlines()
    assert line.endswith("a  KeyError: 'm' (/suite.py:7)")
    assert f"{bug.message}\n{bug.detail}" in show(capsys, run, "-e", "0")


def test_an_episode_that_is_not_there_is_one_line(run: Path) -> None:
    with pytest.raises(ConfigError, match=r"--episode: .* has no episode '9'"):
        app(["show", str(run), "-e", "9"], standalone_mode=False)


def test_what_holds_no_such_lane_or_no_run_is_one_line(run: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--lane: no lane starts with 'nope'; lanes: off-r0-w0, on-r0-w0"):
        app(["show", str(run), "--lane", "nope"], standalone_mode=False)
    with pytest.raises(ConfigError, match="no run here"):
        app(["show", str(tmp_path / "nope")], standalone_mode=False)


def test_every_id_of_the_list_names_the_same_episode_with_and_without_a_lane(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = json.loads(show(capsys, run, "--json"))["episodes"]
    assert [row["number"] for row in rows] == [0, 1, 2, 3]
    for row in rows:
        for name in (row["number"], row["key"], row["task_id"]):
            for options in ((), ("--lane", row["lane"])):
                assert json.loads(show(capsys, run, "--json", "-e", name, *options))["task_id"] == row["task_id"]
    with pytest.raises(ConfigError, match=r"0 is in no lane that starts with 'on'; it is number 0 \(off-r0-w0\)"):
        app(["show", str(run), "--lane", "on", "--episode", "0"], standalone_mode=False)


def test_a_task_of_several_lanes_is_one_of_them_or_a_question(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_manifest(tmp_path, command="learn", wanted=2)
    run = write_run(tmp_path, episode("a", lane="on-r0-w0"), episode("a", lane="off-r0-w0"))
    assert json.loads(show(capsys, run, "--json", "-e", "a", "--lane", "on"))["lane"] == "on-r0-w0"
    with pytest.raises(ConfigError, match=r"was run 2 times; give one of the numbers 0 \(off-r0-w0\), 1 \(on-r0-w0\)"):
        app(["show", str(run), "-e", "a"], standalone_mode=False)


def test_a_library_without_skills_is_called_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_manifest(tmp_path, command="run", wanted=1)
    run = write_run(tmp_path, episode("a", skills=SkillUse(Library().snapshot)))
    assert " empty " in show(capsys, run)
    assert "[library] empty, listed 0" in show(capsys, run, "-e", "0")
    assert Library().snapshot[:8] not in show(capsys, run) + show(capsys, run, "-e", "0")


def test_a_number_that_is_also_another_task_is_a_question(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_manifest(tmp_path, command="run", wanted=3)
    run = write_run(tmp_path, *(episode(name, place=place) for place, name in enumerate("213")))
    keys = [row["key"] for row in json.loads(show(capsys, run, "--json"))["episodes"]]
    with pytest.raises(ConfigError) as caught:
        app(["show", str(run), "-e", "2"], standalone_mode=False)
    assert str(caught.value) == f"--episode: 2 is the number of {keys[2]} and the task of {keys[0]}; give the key"
    for wanted, task in ((keys[0], "2"), ("0", "2"), ("1", "1"), ("3", "3")):
        assert json.loads(show(capsys, run, "--json", "-e", wanted))["task_id"] == task
