"""Environments begin with `skills.library`, unless they get a library as an argument."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from fakes.learning import worth

from hermes_lab.config.sources import load_config
from hermes_lab.envs.gym import HermesLabEnv
from hermes_lab.envs.knowledge import TaskKnowledge
from hermes_lab.envs.learning.gym import LearningEnv
from hermes_lab.envs.rollouts import open_rollouts
from hermes_lab.envs.trl import make_environment, make_review_rollout_func, make_rollout_func
from hermes_lab.errors import ConfigError
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.library import Library
from hermes_lab.tasks import load_suite
from hermes_lab.types import Skill

SOURCES = ("suite.name=ledger", "suite.count=2", "learning.arms=[on]")
SERVED = ("model.provider=openai", "model.base_url=http://127.0.0.1:9/v1", "model.name=fake")


def skill(name: str) -> Skill:
    return skill_format.parse(skill_format.render(name, "For it.", "Do it so."), {})


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """A library of one skill."""
    (tmp_path / "library" / "way").mkdir(parents=True)
    (tmp_path / "library" / "way" / "SKILL.md").write_text(skill("way").text)
    return f"skills.library={tmp_path / 'library'}"


async def test_it_is_what_every_task_starts_with(folder: str, tmp_path: Path) -> None:
    config = load_config([*SOURCES, "model.provider=scripted", "model.name=tasks.learner:learner", folder])
    task = load_suite(config.suite).load(split="train", count=1, seed=0, world=0)[0]
    async with open_rollouts(config, log=tmp_path / "log", say=print) as rollouts:
        assert list(rollouts.knowledge.of(task).library.skills) == ["way"]
    env = HermesLabEnv(config=[*SOURCES, folder])
    observation, _ = env.reset(seed=0)
    env.close()
    assert '"way"' in observation["conversation"].replace("\\", "")
    assert list(LearningEnv(config=[*SOURCES, folder])._library.skills) == ["way"]


def open_gym(sources: list[str], library: Library) -> Any:
    return HermesLabEnv(config=sources, library=library)


def open_learning(sources: list[str], library: Library) -> Any:
    return LearningEnv(config=sources, library=library)


def open_rollout_func(sources: list[str], library: Library) -> Any:
    return make_rollout_func(load_config([*SERVED, *sources]), Path("adapters"), library=library)


def open_review_func(sources: list[str], library: Library) -> Any:
    return make_review_rollout_func(load_config([*SERVED, *sources]), worth(), Path("adapters"), library=library)


def open_environment(sources: list[str], library: Library) -> Any:
    return make_environment(load_config(sources), library=library)


@pytest.mark.parametrize("opened", [open_gym, open_learning, open_rollout_func, open_review_func, open_environment])
def test_two_that_differ_are_refused(opened: Callable[[list[str], Library], Any], folder: str) -> None:
    with pytest.raises(ConfigError, match=r"skills\.library: .* is not the library that is passed as an argument"):
        opened([*SOURCES, folder], Library([skill("other")]))
    made = opened([*SOURCES, folder], Library([skill("way")]))
    if isinstance(made, gymnasium.Env) or hasattr(made, "close"):
        made.close()


def test_a_library_that_is_not_there_is_refused() -> None:
    config = load_config([*SOURCES])
    config = config.model_copy(update={"skills": config.skills.model_copy(update={"library": "nowhere"})})
    with pytest.raises(ConfigError, match=r"skills\.library: nowhere: not a library"):
        TaskKnowledge(config, load_suite(config.suite))
