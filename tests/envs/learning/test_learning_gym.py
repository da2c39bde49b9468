"""The Gymnasium environment of reviews."""

import json
import warnings
from collections.abc import Iterator
from typing import Any

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env

from hermes_lab.agent.review import REVIEW_REQUEST
from hermes_lab.config.sources import load_config
from hermes_lab.envs.learning.config import DEFAULT, check_learning
from hermes_lab.envs.learning.gym import LearningEnv
from hermes_lab.envs.learning.lanes import Draw, draw_lanes
from hermes_lab.errors import ConfigError, HermesLabError
from hermes_lab.knowledge import Knowledge
from hermes_lab.models.hermes_format import render_calls
from hermes_lab.skills import format as skill_format
from hermes_lab.tasks import load_suite
from hermes_lab.tasks.registry import domains
from hermes_lab.tasks.subtasks import known_skill, subtasks_of
from hermes_lab.types import ToolCall

ONE_RULE = ("suite.options.ruled=1", "suite.options.plain=0")
WORTH = {"tasks": 1, "followups": 2, "repeats": 1, "listed_cost": 0.001, "body_cost": 0.0001}


@pytest.fixture
def env() -> Iterator[LearningEnv]:
    env = LearningEnv("ledger", config=ONE_RULE, worth=WORTH)
    yield env
    env.close()


def saves_the_rule(env: LearningEnv) -> str:
    """The turn that saves the rule of the task under review."""
    assert env._stepped is not None
    (subtask,) = subtasks_of(env._stepped.lane.tasks[0].truth)
    skill = known_skill(subtask.site, subtask.site.drawn)
    arguments = {"action": "create", "name": skill.name, "description": skill.description}
    return render_calls("", [ToolCall("c", "skill_manage", arguments | {"content": skill_format.body(skill)})])


def test_gymnasiums_own_checker_passes_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gymnasium.make("hermes_lab.envs:HermesLab/ledger-learning-v0", render_mode="ansi", worth=WORTH).unwrapped
        check_env(env)
        env.close()


def test_the_agent_reviews_the_work_and_earns_what_its_skill_is_worth(env: LearningEnv) -> None:
    observation, info = env.reset(seed=3)
    turns = json.loads(observation["conversation"])
    assert REVIEW_REQUEST in turns[-1]["content"]
    assert "The submission was accepted after a rejection." in turns[-1]["content"]
    assert observation["task"] == turns[1]["content"]
    assert info["lane"] == "on-r0-w0"
    observation, reward, terminated, truncated, info = env.step(saves_the_rule(env))
    assert (reward, terminated, truncated, info) == (0.0, False, False, {})
    assert "tool_response" in json.loads(observation["conversation"])[-1]["content"]
    _, reward, terminated, truncated, info = env.step("Saved.")
    assert (terminated, truncated) == (True, False)
    assert 0.9 < reward < 1.0
    assert (info["solved_before"], info["solved_after"], info["rollouts"]) == (0, 2, 2)
    assert reward == pytest.approx(sum(info["terms"].values()))
    assert env.outcome is not None
    assert len(env.outcome.followups) == 4
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step("Saved.")


def test_a_review_that_writes_nothing_earns_nothing(env: LearningEnv) -> None:
    env.reset(seed=3)
    _, reward, terminated, _, info = env.step("Nothing to save.")
    assert (reward, terminated, info["rollouts"]) == (0.0, True, 0)


def test_a_reset_that_fails_leaves_nothing_to_step(env: LearningEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the end of the learning episode before, with a reward of 0."""

    async def broken(seed: int) -> None:
        raise HermesLabError(f"no sandbox for seed {seed}")

    env.reset(seed=3)
    monkeypatch.setattr(env._stepped, "begin", broken)
    with pytest.raises(HermesLabError, match="no sandbox"):
        env.reset(seed=4)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step("Nothing to save.")


def test_the_task_of_the_info_is_the_one_under_review() -> None:
    """Work on the first task ends without an answer, so the first review is that of the second one."""
    env = LearningEnv(
        "ledger", config=(*ONE_RULE, "model.name=fakes.unready:first_unready"), worth=WORTH | {"tasks": 2}
    )
    observation, info = env.reset(seed=3)
    assert env._stepped is not None
    first, second = env._stepped.lane.tasks
    assert (observation["task"], info["task_id"]) == (second.prompt, second.id)
    assert first.id != second.id
    env.close()


def test_every_task_of_a_learning_episode_is_reviewed_with_what_was_learnt_before() -> None:
    env = LearningEnv("ledger", config=ONE_RULE, worth=WORTH | {"tasks": 2})
    env.reset(seed=3)
    env.step(saves_the_rule(env))
    observation, reward, terminated, _, _ = env.step("Saved.")
    assert (reward, terminated) == (0.0, False)
    turns = json.loads(observation["conversation"])
    assert "The submission was accepted on the first try." in turns[-1]["content"]
    assert "<skills>" in turns[0]["content"]
    _, reward, terminated, _, info = env.step("Nothing to save.")
    assert terminated
    assert 0.9 < reward < 1.0  # that of both reviews
    assert info["rollouts"] == 2
    env.close()


def test_the_same_seed_gives_the_same_learning_episodes(env: LearningEnv) -> None:
    first = [env.reset(seed=5), env.reset()]
    assert [env.reset(seed=5), env.reset()] == first
    assert first[0][1]["task_id"] != first[1][1]["task_id"]


def test_what_is_no_action_is_refused(env: LearningEnv) -> None:
    env.reset(seed=0)
    with pytest.raises(gymnasium.error.InvalidAction):
        env.step(3)  # type: ignore[arg-type]


def test_a_worker_that_never_answers_leaves_nothing_to_review() -> None:
    env = LearningEnv("ledger", config=(*ONE_RULE, "model.name=fakes.unready:never_answers"), worth=WORTH)
    with pytest.raises(HermesLabError, match="nothing to review"):
        env.reset(seed=0)
    env.close()


@pytest.mark.parametrize(
    ("config", "worth", "message"),
    [
        (["learning.arms=[off]"], WORTH, "learning.arms: off"),
        (["agent.program=hermes"], WORTH, "agent.program"),
        (["agent.toolsets=[terminal]"], WORTH, "agent.toolsets: .* without skill_manage and skill_view: add"),
        (["agent.toolsets=[terminal, skill_view]"], WORTH, "agent.toolsets: .* without skill_manage: add"),
        (["agent.toolsets=[skills]", "agent.disabled_tools=[skill_view]"], WORTH, "without skill_view: add"),
        (["env.knowledge=mixed"], WORTH, "env.knowledge: is mixed; a learning episode begins with skills.library"),
        ([], WORTH | {"followups": 0}, "followups"),
    ],
)
def test_what_cannot_be_a_learning_episode_is_refused(config: list[str], worth: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        LearningEnv("ledger", config=config, worth=worth)


def test_notes_can_teach_as_well() -> None:
    check_learning(load_config(["suite.name=ledger", "learning.arms=[on]", "agent.toolsets=[terminal, memory]"]))


@pytest.mark.parametrize("family", ["repair", "labels", "figures", "services", "notices"])
def test_the_worker_reaches_a_review_in_every_domain(family: str) -> None:
    """With the default configuration: `notices` needs the toolset `web`."""
    env = gymnasium.make(f"hermes_lab.envs:HermesLab/{family}-learning-v0", worth=WORTH).unwrapped
    observation, _ = env.reset(seed=3)
    turns = json.loads(observation["conversation"])
    assert REVIEW_REQUEST in turns[-1]["content"]
    assert "The submission was accepted" in turns[-1]["content"]
    env.close()


def test_toolsets_that_were_given_are_left_alone() -> None:
    given = LearningEnv("notices", config=["agent.toolsets=[terminal, skills]"], worth=WORTH)
    assert given.config.agent.toolsets == ("terminal", "skills")
    assert LearningEnv("ledger", worth=WORTH).config.agent.toolsets == ("terminal", "file", "skills")
    assert LearningEnv("notices", worth=WORTH).config.agent.toolsets[-1] == "web"


def test_every_registered_suite_has_tasks_for_learning_episodes() -> None:
    """Their tasks differ in more than the prompt, so that no answer is that of a follow-up."""
    ids = [name for name in gymnasium.registry if name.startswith("HermesLab/") and name.endswith("-learning-v0")]
    suites = {name.removeprefix("HermesLab/").removesuffix("-learning-v0") for name in ids}
    assert suites == {suite for domain, families in domains().items() for suite in (domain, *families)}
    for name in sorted(suites):
        config = load_config([f"suite.name={name}", "learning.arms=[on]"])
        suite = load_suite(config.suite)
        (lane,) = draw_lanes(suite, config, DEFAULT, Draw("train", 0, 0, 1, 1), Knowledge())
        tasks = (*lane.tasks, *lane.followups)
        assert len({task.id for task in tasks}) == len(tasks) == DEFAULT.tasks + DEFAULT.followups
