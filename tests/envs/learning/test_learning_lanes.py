"""Which tasks a learning episode is made of."""

import json
from pathlib import Path

import pytest

from hermes_lab.config.sources import load_config
from hermes_lab.envs.learning.config import DEFAULT
from hermes_lab.envs.learning.lanes import Draw, LearningLane, draw_lanes
from hermes_lab.errors import ConfigError
from hermes_lab.knowledge import Knowledge
from hermes_lab.tasks.jsonl import JsonlSuite


def lane_of(path: Path, *answers: str) -> LearningLane:
    """A learning episode of tasks with these expected outputs."""
    rows = [{"prompt": f"Question {number}?", "expected_output": answer} for number, answer in enumerate(answers)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = load_config([f"suite.path={path}", "learning.arms=[on]"])
    (lane,) = draw_lanes(JsonlSuite(path), config, DEFAULT, Draw("train", 0, 0, 1, 1), Knowledge())
    return lane


def test_no_follow_up_has_the_answer_of_the_task(tmp_path: Path) -> None:
    """A review that writes down the answer would be paid for it."""
    lane = lane_of(tmp_path / "t.jsonl", "a", "b", "a", "c", "c", "d", "b", "e", *["a"] * 12)
    answers = [task.truth["expected_output"] for task in (*lane.tasks, *lane.followups)]
    assert answers == ["a", "b", "c", "d", "e"]


def test_a_suite_with_few_answers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"5 different tasks are needed, .* has 2 among 20: neither the files, setup"):
        lane_of(tmp_path / "t.jsonl", *["yes", "no"] * 10)


def test_all_tasks_of_a_small_suite_are_looked_at(tmp_path: Path) -> None:
    """It has fewer than are drawn to find different ones, which is no reason to refuse it."""
    lane = lane_of(tmp_path / "t.jsonl", "a", "a", "b", "c", "d", "e")
    assert [task.truth["expected_output"] for task in (*lane.tasks, *lane.followups)] == ["a", "b", "c", "d", "e"]
    with pytest.raises(ConfigError, match=r"reviews: 5 different tasks are needed, .* has 2 among 3: .* lower reviews"):
        lane_of(tmp_path / "t.jsonl", "yes", "no", "no")


def test_another_mistake_of_the_suite_is_still_said(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text(json.dumps({"prompt": "Question?", "expected_output": "a"}) + "\n")
    config = load_config([f"suite.path={tmp_path / 't.jsonl'}", "learning.arms=[on]"])
    with pytest.raises(ConfigError, match=r"split.*elsewhere"):
        draw_lanes(JsonlSuite(tmp_path / "t.jsonl"), config, DEFAULT, Draw("elsewhere", 0, 0, 1, 1), Knowledge())
