from collections.abc import Callable
from pathlib import Path
from typing import get_type_hints

import msgspec
import pytest
from synthetic_episodes import make_episode

from hermes_lab.analysis.data.columns import read_columns
from hermes_lab.analysis.data.line import read_last
from hermes_lab.analysis.data.load import load_episodes
from hermes_lab.analysis.data.rows import EpisodeRow
from hermes_lab.analysis.data.runs import ended_early, open_runs, refuse_copies
from hermes_lab.errors import ConfigError
from hermes_lab.types import (
    Episode,
    EpisodeError,
    Review,
    SkillUse,
    SkillWrite,
    TaskInfo,
    Trajectory,
    Usage,
    Verdict,
)

WriteRun = Callable[..., Path]


def errored(task: int) -> Episode:
    error = EpisodeError("sandbox", "died")
    return make_episode(None, task=task, status="errored", error=error, trajectory=None, metrics={})


def test_every_documented_column_is_there_in_its_order(write_run: WriteRun) -> None:
    frame = load_episodes(write_run([make_episode(True)]))
    assert list(frame.columns) == list(get_type_hints(EpisodeRow))
    assert str(frame["success"].dtype) == "boolean"


def test_a_run_is_a_path_or_its_text(write_run: WriteRun) -> None:
    run = write_run([make_episode(True), make_episode(False, task=1)], wanted=3)
    text = str(run)
    assert load_episodes(text).equals(load_episodes(run))
    assert read_columns(text, ["run", "task_id"]) == [(text, "t0"), (text, "t1")]
    assert read_last(text, ["success"], lambda line: line.success) == [True, False]
    (opened,) = open_runs(text)
    assert (opened.folder, opened.finished, ended_early(text)) == (run, 2, "")
    with pytest.raises(ConfigError, match="the same run is given twice"):
        refuse_copies([text, run])
    with pytest.raises(ConfigError, match=r"nothing: no run here \(no such folder\)"):
        load_episodes("nothing")


def test_last_attempt_of_a_key_wins(write_run: WriteRun) -> None:
    frame = load_episodes(write_run([errored(0), make_episode(True, task=0)]))
    assert frame["status"].tolist() == ["ok"]
    assert frame["error_kind"].tolist() == [""]


def test_errored_and_unscored_episodes_are_missing_rather_than_failed(write_run: WriteRun) -> None:
    episodes = [make_episode(True), make_episode(False, task=1), make_episode(None, task=2), errored(3)]
    frame = load_episodes(write_run(episodes))
    assert frame["success"].isna().tolist() == [False, False, True, True]
    assert frame["accepted"].isna().tolist() == [False, False, True, True]
    assert frame["first_call_ok"].isna().tolist() == [False, False, False, True]
    assert frame["success"].mean() == 0.5
    assert frame["error_kind"].tolist() == ["", "", "", "sandbox"]


def test_a_later_right_submission_is_accepted_but_no_success(write_run: WriteRun) -> None:
    verdicts = (Verdict(0.0, False), Verdict(1.0, True))
    frame = load_episodes(write_run([make_episode(False, verdicts=verdicts)]))
    assert frame[["success", "accepted", "submissions"]].values.tolist() == [[False, True, 2]]


def test_lane_name_gives_arm_replicate_and_world_and_other_lanes_the_world_of_their_task(
    write_run: WriteRun,
) -> None:
    other = msgspec.structs.replace(make_episode(True, task=1), task=TaskInfo("code", "train", world=7))
    frame = load_episodes(write_run([make_episode(True, lane="on-r3-w12"), other]))
    assert frame[["arm", "replicate", "world"]].values.tolist() == [["on", 3, 12], ["main", 0, 7]]


def test_skills_and_tokens_count_the_review_apart(write_run: WriteRun) -> None:
    write = SkillWrite("create", "s", "text", "review", "e", "m", "snap")
    review = Review(Trajectory((), (), "native", "answered", usage=Usage(100, 20)), writes=(write, write))
    skills = SkillUse(snapshot="snap", listed=("a", "b"), loaded=("a",))
    frame = load_episodes(write_run([make_episode(True, skills=skills, review=review), make_episode(True, task=1)]))
    columns = ["skills_listed", "skills_loaded", "reused", "skills_written", "review_tokens", "prompt_tokens"]
    assert frame[columns].values.tolist() == [[2, 1, True, 2, 120, 10], [0, 0, False, 0, 0, 10]]


def test_several_runs_stand_in_one_table(write_run: WriteRun) -> None:
    a, b = write_run([make_episode(True)], "a"), write_run([make_episode(False)], "b")
    frame = load_episodes(a, b)
    assert frame["run"].tolist() == [str(a), str(b)]


def test_run_without_an_episode_is_an_empty_table(write_run: WriteRun) -> None:
    frame = load_episodes(write_run([]))
    assert len(frame) == 0
    assert str(frame["score"].dtype) == "Float64"


def test_folder_that_is_no_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no run here \(no run.json\)"):
        load_episodes(tmp_path)
