"""Environments of tasks that a model grades: the same judge as in a run, or a refusal before the first episode."""

import json
from pathlib import Path

import pytest
from fakes.openai_server import FakeOpenAIServer, running

from hermes_lab.config.sources import load_config
from hermes_lab.envs.gym import HermesLabEnv
from hermes_lab.envs.trl.environment import make_environment
from hermes_lab.errors import ConfigError, HermesLabError


@pytest.fixture
def judged(tmp_path: Path) -> str:
    """`suite.path` of one task with a rubric."""
    rows = tmp_path / "polite.jsonl"
    rows.write_text(json.dumps({"prompt": "Greet Jo.", "judge": "The answer greets Jo by name."}) + "\n")
    return f"suite.path={rows}"


def judge_at(base_url: str) -> tuple[str, ...]:
    return ("judge.model.provider=openai", "judge.model.name=fake", f"judge.model.base_url={base_url}")


@pytest.mark.parametrize(("grade", "reward"), [("C", 1.0), ("I", 0.0)])
def test_an_episode_earns_what_the_judge_grades(judged: str, grade: str, reward: float) -> None:
    with running(FakeOpenAIServer([f"I have read it.\nGRADE: {grade}"])) as server:
        env = HermesLabEnv(config=(judged, *judge_at(server.base_url)))
        env.reset(seed=0)
        _, earned, terminated, _, info = env.step("Hello Jo.")
        env.close()
        asked = server.requests[-1]["messages"][-1]["content"]
    assert (earned, terminated, info["success"]) == (reward, True, grade == "C")
    assert "Hello Jo." in asked
    assert env.episode is not None
    assert [each.passed for each in env.episode.judgements] == [grade == "C"]


def test_a_judge_that_fails_is_an_error_not_a_reward(judged: str) -> None:
    with running(FakeOpenAIServer(["It is fine."])) as server:
        env = HermesLabEnv(config=(judged, *judge_at(server.base_url)))
        env.reset(seed=0)
        with pytest.raises(HermesLabError, match=r"no reward: judge: the last line is neither"):
            env.step("Hello Jo.")
        env.close()


def test_an_environment_without_its_judge_is_refused(judged: str) -> None:
    with pytest.raises(ConfigError, match=r"^judge: .* is graded by a model, and none is given"):
        HermesLabEnv(config=(judged,))


def test_a_judge_that_no_task_needs_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^judge: no task of ledger has a rubric"):
        HermesLabEnv("ledger", config=judge_at("http://127.0.0.1:1/v1"))


def test_the_class_for_trl_refuses_tasks_whose_answer_it_does_not_see(judged: str) -> None:
    config = load_config([judged, *judge_at("http://127.0.0.1:1/v1")])
    with pytest.raises(ConfigError, match=r"^suite: task .* is graded by a model, and TRL passes no answer"):
        make_environment(config)
