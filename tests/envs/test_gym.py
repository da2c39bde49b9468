"""The Gymnasium environment: the real rollout, one assistant turn a step."""

import importlib
import json
import subprocess
import sys
import warnings
from collections.abc import Iterator

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_lab import envs
from hermes_lab.envs.gym import HermesLabEnv
from hermes_lab.errors import ConfigError, HermesLabError
from hermes_lab.models.hermes_format import render_calls
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.library import Library
from hermes_lab.tasks import load_suite
from hermes_lab.types import Episode, ToolCall


def run(command: str) -> str:
    return render_calls("", [ToolCall("c", "terminal", {"command": command})])


@pytest.fixture
def env() -> Iterator[HermesLabEnv]:
    env = HermesLabEnv("ledger")
    yield env
    env.close()


@pytest.mark.parametrize("actions", ["text", "structured"])
@pytest.mark.parametrize("suite", ["ledger", "code_debugging", "reasoning_gym", "release"])
def test_gymnasiums_own_checker_passes_without_a_warning(suite: str, actions: str) -> None:
    if suite == "reasoning_gym":
        pytest.importorskip("reasoning_gym", reason="optional: needs the extra `reasoning-gym`")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gymnasium.make(f"hermes_lab.envs:HermesLab/{suite}-v0", render_mode="ansi", actions=actions).unwrapped
        check_env(env)
        env.close()


def solve(env: HermesLabEnv, seed: int, commands: tuple[str, ...]) -> tuple[float, bool, Episode]:
    env.reset(seed=seed)
    for command in commands:
        _, reward, terminated, truncated, _ = env.step(run(command))
        assert (reward, terminated, truncated) == (0.0, False, False)
    _, reward, terminated, _, _ = env.step("Done.")
    if not terminated:
        _, reward, terminated, _, _ = env.step("I cannot do better.")
    assert env.episode is not None
    return reward, terminated, env.episode


def test_the_oracle_earns_1_and_doing_nothing_0(env: HermesLabEnv) -> None:
    suite = load_suite(env.config.suite)
    for seed in range(6):
        _, info = env.reset(seed=seed)
        task_seed = int(gymnasium.utils.seeding.np_random(seed)[0].integers(2**31))
        (task,) = suite.load(split="train", count=1, seed=task_seed, world=0)
        assert task.id == info["task_id"]
        commands = tuple(move.arguments["command"] for move in suite.oracle(task))
        reward, terminated, episode = solve(env, seed, commands)
        assert (reward, terminated, episode.score) == (1.0, True, 1.0)
        assert solve(env, seed, ())[0] == 0.0


def test_the_conversation_is_what_a_model_would_see(env: HermesLabEnv) -> None:
    observation, _ = env.reset(seed=1)
    turns = json.loads(observation["conversation"])
    assert [turn["role"] for turn in turns] == ["system", "user"]
    assert "<tools>" in turns[0]["content"]
    assert turns[1]["content"] == observation["task"]
    observation, *_ = env.step(run("echo hello"))
    assert "hello" in json.loads(observation["conversation"])[-1]["content"]


def test_rejected_work_gets_feedback_and_the_reward_is_that_of_the_first_submission(
    env: HermesLabEnv,
) -> None:
    env.reset(seed=0)
    observation, reward, terminated, _, _ = env.step("Done.")
    assert (reward, terminated) == (0.0, False)
    assert json.loads(observation["conversation"])[-1]["content"].startswith("Rejected")


def test_feedback_on_no_work_at_all_does_not_tell_the_rule(env: HermesLabEnv) -> None:
    """Otherwise `reward.recovered` would be earned fastest by submitting nothing first."""
    suite = load_suite(env.config.suite)
    seen = 0
    for seed in range(8):
        env.reset(seed=seed)
        task_seed = int(gymnasium.utils.seeding.np_random(seed)[0].integers(2**31))
        (task,) = suite.load(split="train", count=1, seed=task_seed, world=0)
        observation, _, terminated, _, _ = env.step("Done.")
        assert not terminated
        (subtask,) = task.truth["pieces"]
        seen += subtask.site.ruled
        assert not subtask.site.drawn.stated_in(json.loads(observation["conversation"])[-1]["content"])
    assert seen > 2


def test_work_that_is_accepted_at_the_second_submission_has_recovered() -> None:
    env = HermesLabEnv("ledger", config=["reward.score=0", "reward.recovered=1", "reward.discount=0.25"])
    suite = load_suite(env.config.suite)
    env.reset(seed=0)
    task_seed = int(gymnasium.utils.seeding.np_random(0)[0].integers(2**31))
    (task,) = suite.load(split="train", count=1, seed=task_seed, world=0)
    env.step("Done.")
    for move in suite.oracle(task):
        env.step(run(move.arguments["command"]))
    _, reward, terminated, _, info = env.step("Done.")
    env.close()
    assert (reward, terminated, info["terms"], info["success"]) == (0.25, True, {"recovered": 0.25}, False)


@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_a_seed_draws_the_same_tasks_in_the_same_order(env: HermesLabEnv, seed: int) -> None:
    first = [env.reset(seed=seed), env.reset(), env.reset()]
    again = [env.reset(seed=seed), env.reset(), env.reset()]
    assert first == again
    assert len({info["task_id"] for _, info in first}) == 3


def test_what_is_no_action_is_refused(env: HermesLabEnv) -> None:
    env.reset(seed=0)
    for action in (3, None, b"Done.", {"tool": "", "arguments": "", "content": "Done."}):
        with pytest.raises(gymnasium.error.InvalidAction):
            env.step(action)  # type: ignore[arg-type]
    env.step("Done.")  # the episode goes on


def test_a_kind_of_action_that_there_is_not_is_named() -> None:
    with pytest.raises(ConfigError, match="actions: unknown 'json'; use text or structured"):
        HermesLabEnv("ledger", actions="json")  # type: ignore[arg-type]


def test_the_last_info_names_the_terms_that_the_reward_is_made_of(env: HermesLabEnv) -> None:
    weighted = HermesLabEnv("ledger", config=["reward.answered=-0.25", "reward.tool_calls=-0.5"])
    weighted.reset(seed=0)
    weighted.step(run("true"))
    weighted.step("Done.")
    _, reward, terminated, _, info = weighted.step("I cannot do better.")
    weighted.close()
    assert (reward, terminated) == (-0.75, True)
    assert info == {
        "terms": {"score": 0.0, "answered": -0.25, "tool_calls": -0.5},
        "score": 0.0,
        "success": False,
        "stop_reason": "answered",
    }


@pytest.mark.filterwarnings("default")
def test_a_reward_that_is_earned_without_solving_anything_is_warned_about(env: HermesLabEnv) -> None:
    with pytest.warns(UserWarning, match=r"reward\.tool_calls=0\.1: can be earned without solving anything"):
        HermesLabEnv("ledger", config=["reward.tool_calls=0.1"])


def test_rendering_is_the_conversation_as_text(env: HermesLabEnv) -> None:
    shown = HermesLabEnv("ledger", render_mode="ansi")
    shown.reset(seed=0)
    shown.step(run("echo hello"))
    text = shown.render()
    shown.close()
    assert text is not None
    assert text.startswith("[system]\n")
    assert text.endswith("</tool_response>")
    assert env.render() is None


def test_a_name_that_gymnasium_cannot_take_does_not_break_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermes_lab.tasks.list_suites", lambda: ["my suite", "a:b", "", "my.suite-2"])
    monkeypatch.setattr(gymnasium.envs.registration, "registry", {})
    importlib.reload(envs)
    found = [name for name in gymnasium.envs.registration.registry if not name.endswith("-learning-v0")]
    assert found == ["HermesLab/my.suite-2-v0"]


def test_a_budget_truncates() -> None:
    env = HermesLabEnv("ledger", config=["agent.max_iterations=1"])
    env.reset(seed=0)
    env.step(run("true"))
    _, reward, terminated, truncated, info = env.step("Out of budget.")
    assert (reward, terminated, truncated) == (0.0, False, True)
    assert info["stop_reason"] == "max_iterations"
    env.close()


def test_a_library_of_skills_is_listed_and_can_be_loaded() -> None:
    skill = skill_format.parse(skill_format.render("house", "House rules", "Be kind."))
    env = HermesLabEnv("ledger", library=Library([skill]))
    observation, _ = env.reset(seed=0)
    assert '- "house": House rules' in json.loads(observation["conversation"])[0]["content"]
    observation, *_ = env.step(render_calls("", [ToolCall("c", "skill_view", {"name": "house"})]))
    assert "Be kind." in observation["conversation"]
    env.close()


def test_an_unscored_task_is_an_error_not_a_zero(tmp_path: object) -> None:
    from pathlib import Path

    file = Path(str(tmp_path)) / "t.jsonl"
    file.write_text('{"prompt": "Hello"}\n')
    env = HermesLabEnv(config=[f"suite.path={file}"])
    env.reset(seed=0)
    with pytest.raises(HermesLabError, match="no verifier"):
        env.step("Hi.")
    env.close()


def test_leaving_an_episode_half_way_leaves_no_sandbox(env: HermesLabEnv) -> None:
    env.reset(seed=0)
    env.step(run("sleep 1000 & echo started"))
    env.reset(seed=1)
    env.close()
    env.close()
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step("Hi.")


def test_a_script_that_never_closes_its_environment_still_ends() -> None:
    script = """
import gymnasium, hermes_lab.envs
env = gymnasium.make("HermesLab/ledger-v0")
env.reset(seed=0)
print(env.step("I am done.")[1])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "0.0\n"), done.stderr


def test_an_environment_has_one_actor_and_so_no_child_agents() -> None:
    with pytest.raises(ConfigError, match="delegate_task"):
        HermesLabEnv("ledger", config=["agent.toolsets=[terminal,delegation]"])


def test_another_program_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^agent\.program: an environment with single steps runs only the lab's own"):
        HermesLabEnv("ledger", config=["agent.program=codex"])


def test_a_suite_without_a_train_split_begins_with_its_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermes_lab.tasks.suite.WorldSuite.splits", ("heldout", "validation"))
    env = HermesLabEnv("ledger")
    try:
        assert env.reset(seed=0)[1]["task_id"].startswith("heldout-")
    finally:
        env.close()
    asked = HermesLabEnv("ledger", config=("suite.split=train",))
    try:
        with pytest.raises(ConfigError, match=r"suite\.split: ledger has no split 'train'"):
            asked.reset(seed=0)
    finally:
        asked.close()
