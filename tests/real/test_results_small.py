"""`make results-small`: the study of the closed loop on one family that the shipped adapter never saw."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.real, pytest.mark.timeout(3600)]


WORLDS = 2
"""`make results-small` has 8, which takes four times as long."""
TASKS = WORLDS * 9


def test_skills_that_the_tuned_model_writes_help_it_on_a_family_that_it_never_saw(tmp_path: Path) -> None:
    study = [
        "configs/experiments/flagship-small.yaml",
        "-c",
        f"out={tmp_path}/small",
        "-c",
        f"learning.worlds={WORLDS}",
        "--json",
    ]
    done = subprocess.run([sys.executable, "-m", "hermes_lab", "study", *study], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    (seats,) = said["parts"]
    solved = {who: {arm: rate["count"] for arm, rate in arms.items()} for who, arms in seats["rates"].items()}
    assert all(rate["of"] == TASKS for arms in seats["rates"].values() for rate in arms.values())
    assert max(solved["untuned"].values()) <= 2
    tuned = solved["tuned"]
    assert tuned["off"] + 4 <= tuned["on"] < tuned["oracle"]
    of_skills = seats["verdicts"]["tuned"]
    assert of_skills["shown"], of_skills["sentence"]
    assert of_skills["difference"] > 0
    of_both = seats["verdicts"]["untuned -> tuned"]["sentence"]
    assert "skills under packaged untuned and the interaction: not measured" in of_both
    assert solved["learner"]["oracle"] == TASKS
    assert Path(seats["report"]).read_text().startswith("<!doctype html>")
    assert said["costs"]["tuned"]["episodes"] == 3 * TASKS
