"""What a rollout earns, by named terms; and what runs of before there was a choice have to do with it."""

import hashlib
import json
import math
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from hermes_lab.config.digest import config_digest, result_fields
from hermes_lab.config.schema import RewardConfig, RunConfig
from hermes_lab.config.sources import load_config
from hermes_lab.errors import ConfigError
from hermes_lab.manifest import RunManifest, config_differences
from hermes_lab.records import read_episodes
from hermes_lab.rewards import TERMS, compute_reward, earned_share, reward_warnings
from hermes_lab.runners.cli import app
from hermes_lab.types import Message, Reward, Step, ToolResult, Trajectory, Usage, Verdict
from hermes_lab.types.trajectory import StopReason

weights = st.floats(-10, 10)
scores = st.floats(0, 1)
verdicts = st.lists(st.builds(Verdict, scores, st.booleans()), min_size=1, max_size=3)


def trajectory(calls: int, stop: StopReason = "answered") -> Trajectory:
    results = tuple(ToolResult(f"c{i}", "terminal", "{}") for i in range(calls))
    messages = (Message("assistant", ""), Message("user", "", results=results), Message("assistant", "Done."))
    return Trajectory(messages, (), "hermes", stop, steps=(Step(0, "stop", Usage()),))


def test_every_term_has_a_weight_and_every_weight_a_term() -> None:
    assert set(RewardConfig.model_fields) - {"discount"} == set(TERMS)


@given(verdicts, st.integers(0, 100))
def test_the_usual_reward_is_the_first_score_whatever_was_called(judged: list[Verdict], calls: int) -> None:
    reward = compute_reward(RewardConfig(), trajectory(calls), judged)
    assert reward is not None
    assert (reward.value, reward.terms) == (judged[0].score, {"score": judged[0].score})


@given(st.integers(0, 1000), st.sampled_from(["answered", "empty", "max_iterations"]))
def test_a_rollout_that_does_nothing_but_call_tools_earns_nothing(calls: int, stop: StopReason) -> None:
    reward = compute_reward(RewardConfig(), trajectory(calls, stop), [Verdict(0.0, False)])
    assert reward is not None
    assert reward.value == 0.0


@given(weights, weights, weights, weights, weights, verdicts, st.integers(0, 20))
def test_the_weighted_terms_add_up(
    score: float,
    accepted: float,
    recovered: float,
    answered: float,
    tool_calls: float,
    judged: list[Verdict],
    calls: int,
) -> None:
    if not any((score, accepted, recovered, answered, tool_calls)):
        return
    config = RewardConfig(score=score, accepted=accepted, recovered=recovered, answered=answered, tool_calls=tool_calls)
    reward = compute_reward(config, trajectory(calls), judged)
    assert reward is not None
    assert reward.value == math.fsum(reward.terms.values())
    wanted = {
        "score": score * judged[0].score,
        "accepted": accepted * judged[-1].success,
        "recovered": recovered * next((0.5**k for k, verdict in enumerate(judged) if verdict.success), 0.0),
        "answered": answered,
        "tool_calls": tool_calls * calls,
    }
    assert reward.terms == {name: wanted[name] for name in config.weights}


def test_work_that_nothing_judges_has_no_reward() -> None:
    assert compute_reward(load_config(["reward.tool_calls=1"]).reward, trajectory(3), []) is None


def test_one_term_more_leaves_the_score_as_it_is() -> None:
    assert load_config(["reward.tool_calls=0.1"]).reward.weights == {"score": 1.0, "tool_calls": 0.1}


@pytest.mark.parametrize(
    ("override", "why"),
    [
        ("reward.score=0", "reward: every weight is 0; set at least one"),
        ("reward.tool_call=1", "unknown field; valid fields: score, accepted, recovered, answered, tool_calls"),
        ("reward.discount=0.7", "reward: `discount` has no effect while reward.recovered is 0"),
        ("reward={recovered: 1, discount: 1}", "reward.discount: Input should be less than 1"),
        ("reward={recovered: 1, discount: 0}", "reward.discount: Input should be greater than 0"),
        ("reward.score=much", "reward.score: must be a number"),
        ("reward.score=.inf", "reward.score: must be a finite number"),
    ],
)
def test_a_wrong_weight_is_named(override: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        load_config([override])


def recovery(discount: float = 0.5) -> RewardConfig:
    return RewardConfig(score=0.0, recovered=1.0, discount=discount)


def earned(config: RewardConfig, *accepted: bool) -> float:
    reward = compute_reward(config, trajectory(1), [Verdict(float(each), each) for each in accepted])
    assert reward is not None
    return reward.value


def test_work_that_is_accepted_late_earns_less_with_every_rejection() -> None:
    found = [earned(recovery(), *[False] * k, True) for k in range(4)]
    assert found == [1.0, 0.5, 0.25, 0.125]
    assert earned(recovery(), False, False) == 0.0


@given(st.lists(st.booleans(), min_size=1, max_size=4), st.floats(0.01, 0.99), st.floats(0, 2), st.floats(0, 2))
def test_to_fail_first_on_purpose_never_pays(accepted: list[bool], discount: float, score: float, last: float) -> None:
    config = RewardConfig(score=score, accepted=last, recovered=1.0, discount=discount)
    at_once, later = earned(config, *accepted), earned(config, False, *accepted)
    assert later < at_once if any(accepted) else later == at_once


@given(st.floats(0.01, 0.99), st.floats(0.01, 0.9), st.integers(1, 200))
def test_many_guesses_earn_no_more_than_the_bound_in_the_docs(chance: float, discount: float, attempts: int) -> None:
    outcomes = [(chance * (1 - chance) ** k, earned(recovery(discount), *[False] * k, True)) for k in range(attempts)]
    assert sum(p * reward for p, reward in outcomes) <= chance / (1 - discount * (1 - chance)) + 1e-9


@given(verdicts, st.integers(0, 9))
def test_the_share_that_is_earned_is_of_what_solving_earns(judged: list[Verdict], calls: int) -> None:
    config = RewardConfig(score=1.0, recovered=3.0, answered=1.0, tool_calls=-0.1)
    reward = compute_reward(config, trajectory(calls), judged)
    assert reward is not None
    share = earned_share(config, reward)
    assert share == pytest.approx((judged[0].score + reward.terms["recovered"]) / 4)
    assert earned_share(RewardConfig(score=0.0, answered=1.0), Reward(1.0, {"answered": 1.0})) is None


def test_the_discount_is_part_of_the_configuration_where_it_counts() -> None:
    digests = {config_digest(RunConfig(reward=recovery(discount))) for discount in (0.5, 0.7)}
    assert len(digests | {config_digest(RunConfig())}) == 3


def test_what_is_earned_without_solving_anything_is_doubted() -> None:
    assert reward_warnings(RewardConfig()) == ""
    assert reward_warnings(RewardConfig(tool_calls=-0.1, accepted=1)) == ""
    assert reward_warnings(RewardConfig(tool_calls=0.1, answered=1)).startswith(
        "reward.answered=1 and reward.tool_calls=0.1: "
    )


def test_the_usual_reward_leaves_digests_as_they_were_before_there_was_a_choice() -> None:
    before = result_fields(RunConfig().model_dump(mode="json", exclude={"reward"}))
    assert config_digest(RunConfig()) == hashlib.sha256(json.dumps(before, sort_keys=True).encode()).hexdigest()
    spelt = load_config(["reward.score=1.0", "reward.tool_calls=0"])
    assert config_digest(spelt) == config_digest(RunConfig())
    assert config_digest(load_config(["reward.tool_calls=0.1"])) != config_digest(RunConfig())


def manifest(content: dict[str, object]) -> RunManifest:
    about = {"command": "run", "config_digest": "", "tasks_digest": "", "wanted": 0, "created_at": "", "versions": {}}
    return msgspec.convert({**about, "config": content}, RunManifest)


def test_a_run_of_before_goes_on_with_the_usual_reward_and_no_other() -> None:
    before = RunConfig().model_dump(mode="json", exclude={"reward"})
    assert list(config_differences(manifest(before), manifest(RunConfig().model_dump(mode="json")))) == []
    other = load_config(["reward.tool_calls=0.1"]).model_dump(mode="json")
    assert list(config_differences(manifest(before), manifest(other))) == [("reward.tool_calls", 0.0, 0.1)]


def test_a_run_composes_the_reward_says_what_is_doubtful_of_it_and_scores_as_ever(tmp_path: Path) -> None:
    where = [
        "-c",
        "model.provider=scripted",
        "-c",
        "suite.name=ledger",
        "-c",
        "suite.count=1",
        "-c",
        "reward.tool_calls=0.1",
    ]
    done = CliRunner().invoke(
        app,
        ["run", *where, "-c", "model.name=hermes_lab.tasks.demonstrator:demonstrator", "--out", str(tmp_path / "r")],
    )
    assert done.exit_code == 0, done.output
    assert done.output.count("reward.tool_calls=0.1: can be earned without solving anything") == 1
    (episode,) = read_episodes(tmp_path / "r")
    assert episode.reward is not None
    calls = episode.metrics["tool_calls"]
    assert calls > 0
    assert episode.reward.terms == {"score": episode.score, "tool_calls": 0.1 * calls}
    assert episode.reward.value == pytest.approx((episode.score or 0.0) + 0.1 * calls)
