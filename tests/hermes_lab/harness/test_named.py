"""Every output about a run names the program that worked, and its version."""

import json
from pathlib import Path
from typing import Any

from fakes.command import lab

Experiment = Any
AGENT = "fake, hermes_lab.tasks.learner:learner"
"""The fake program's version is unknown."""


def test_outputs_name_the_program(experiment: Experiment, tmp_path: Path) -> None:
    experiment(learning={"arms": ["off", "on"], "rounds": 2})
    run = tmp_path / "run"
    content = json.loads(lab("summary", run, "--json").stdout)
    assert content["program"]["name"] == "fake"
    assert len(content["program"]["digest"]) == 64
    assert "\n  arm on, fake, tasks.learner:learner\n" in lab("summary", run).stdout
    assert lab("show", run).stdout.startswith("fake, ")
    assert ", fake, tasks.learner:learner\n" in lab("show", run, "--episode", "0").stdout
    assert f"agent of {run}: fake, " in lab("compare", run).stdout
    assert f"agent of {run}: fake, " in lab("fit", run).stdout
    assert lab("report", run, "-o", tmp_path / "report.html").returncode == 0
    page = (tmp_path / "report.html").read_text()
    assert "<li>Agent: fake, " in page
    assert '<td class="text">fake</td>' in page
    assert lab("export", run, "--format", "atif", "--out", tmp_path / "atif").returncode == 0
    for path in (tmp_path / "atif").glob("*.json"):
        agent = json.loads(path.read_text())["agent"]
        assert (agent["name"], agent["version"]) == ("fake", "unknown")
        assert agent["extra"]["harness"].startswith("hermes-lab ")


def test_two_runs_say_which_agent_worked_in_which(experiment: Experiment, tmp_path: Path) -> None:
    for program in ("fake", ""):
        experiment(program=program, out=f"run{program}", learning={"arms": ["off", "on"], "rounds": 2})
    said = lab("compare", tmp_path / "run", tmp_path / "runfake").stdout
    assert f"agent of {tmp_path / 'run'}: the lab's own loop, " in said
    assert f"agent of {tmp_path / 'runfake'}: fake, " in said
    assert f"{tmp_path / 'run'}: tasks.learner:learner, skills off: " in said
    assert f"{tmp_path / 'runfake'}: tasks.learner:learner, skills on: " in said


def test_a_run_of_the_labs_own_loop_says_nothing_new(experiment: Experiment, tmp_path: Path) -> None:
    experiment(program="", learning={"arms": ["off", "on"], "rounds": 2})
    run = tmp_path / "run"
    assert "agent of" not in lab("compare", run).stdout + lab("fit", run).stdout
    assert json.loads(lab("summary", run, "--json").stdout)["program"] is None
