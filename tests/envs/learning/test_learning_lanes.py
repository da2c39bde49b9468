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
    with pytest.raises(ConfigError, match=r"5 different tasks are needed, .* has 2 among 20: neither a task nor its"):
        lane_of(tmp_path / "t.jsonl", *["yes", "no"] * 10)
