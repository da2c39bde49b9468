"""A program that is installed for the test, and experiments with it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fakes.program import install

import hermes_lab
from hermes_lab.harness.programs import find_program
from hermes_lab.records import read_episodes
from hermes_lab.types import Episode

Experiment = Callable[..., list[Episode]]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the fake program's installation."""
    folder = tmp_path / "site"
    folder.mkdir()
    at = install(folder)
    monkeypatch.syspath_prepend(folder)
    find_program.cache_clear()
    return at


@pytest.fixture
def experiment(tmp_path: Path, installed: Path) -> Experiment:
    """Runs an experiment on one rule with the fake program; returns its episodes."""

    def run(program: str = "fake", out: str = "run", resume: bool = False, **more: Any) -> list[Episode]:
        asked = {"program": program, "at": str(installed)} if program else {}
        agent = {**asked, **more.pop("agent", {})}
        learning = {"arms": ["off", "on", "placebo", "oracle"], "rounds": 3, **more.pop("learning", {})}
        skills = {"review_every": 0} if program != "asked" else {"review_every": 0, "learn_messages": 0}
        config = {
            "model": {"provider": "scripted", "name": "hermes_lab.tasks.learner:learner"},
            "suite": {"name": "ledger", "options": {"ruled": 1, "plain": 0}},
            "skills": skills,
            "learning": learning,
            "agent": agent,
            **more,
        }
        hermes_lab.experiment(config, out=tmp_path / out, resume=resume)
        return sorted(read_episodes(tmp_path / out), key=lambda episode: episode.key)

    return run
