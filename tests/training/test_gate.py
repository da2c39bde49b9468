"""Which groups are trained on."""

from collections import Counter
from typing import Any

import pytest
from fakes.episodes import scored_group
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hermes_lab.envs.groups import normalized_advantages
from hermes_lab.training.group_filter import Rules, filter_groups, refusal
from hermes_lab.training.grpo_steps import scaling
from hermes_lab.types import ScoredGroup

RULES = Rules(group_size=2, max_tokens=5, policies=("now",), splits=("train",))


def group(task_id: str = "t", **fields: Any) -> ScoredGroup:
    """Two short rollouts, one of them rewarded."""
    usual = scored_group(
        task_id=task_id,
        policy="now",
        episodes=(f"s|{task_id}|l|0|0", f"s|{task_id}|l|0|1"),
        token_ids=((1, 2, 3), (1, 2, 4)),
        masks=((0, 0, 1), (0, 0, 1)),
        logprobs=((None, None, -0.5), (None, None, -0.7)),
        rewards=(0.0, 1.0),
        advantages=(-0.7, 0.7),
    )
    return replace(usual, **fields)


SPOILT: dict[str, dict[str, Any]] = {
    "of another policy": {"policy": "before"},
    "held out": {"split": "heldout"},
    "with errored rollouts": {"samples": (0, 0)},
    "longer than max_token_length": {"token_ids": ((1, 2, 3), (1, 2, 3, 4, 5, 6))},
    "with equal rewards": {"rewards": (1.0, 1.0), "advantages": (0.0, 0.0)},
}


def test_a_whole_group_of_the_policy_is_trained_on() -> None:
    assert refusal(group(), RULES) is None


def test_each_reason_to_refuse_is_named() -> None:
    found = {reason: filter_groups([group(**fields)], RULES).refused for reason, fields in SPOILT.items()}
    assert found == {reason: {reason: 1} for reason in SPOILT}


def test_a_task_that_the_adapter_is_judged_by_is_refused() -> None:
    rules = RULES._replace(held_out=frozenset(["s|t|l|0|1"]))
    assert refusal(group(), rules) == "held out"
    assert refusal(group("u"), rules) is None


def test_a_rollout_of_several_sequences_is_trained_on_where_it_sampled_most() -> None:
    plain = group(masks=((0, 0, 1), (0, 1, 1)), logprobs=((None, None, -0.5), (None, -0.6, -0.7)))
    rewritten = replace(
        plain,
        **{
            row: (values[0], other, values[1])
            for row, values, other in [
                ("episodes", plain.episodes, plain.episodes[1]),
                ("samples", plain.samples, plain.samples[1]),
                ("token_ids", plain.token_ids, (1, 2, 9)),
                ("masks", plain.masks, (0, 0, 1)),
                ("logprobs", plain.logprobs, (None, None, -0.9)),
                ("rewards", plain.rewards, plain.rewards[1]),
                ("advantages", plain.advantages, plain.advantages[1]),
            ]
        },
    )
    assert filter_groups([rewritten], RULES) == ([plain], {}, 1)
    assert filter_groups([plain], RULES) == ([plain], {}, 0)


def test_rewards_that_differ_by_rounding_alone_are_equal() -> None:
    rewards = (0.1 + 0.2, 0.3)
    rounded = group(rewards=rewards, advantages=tuple(normalized_advantages(rewards)))
    assert rewards[0] != rewards[1]
    assert refusal(rounded, RULES) == "with equal rewards"


@pytest.mark.parametrize(
    ("kind", "rewards", "reason"),
    [
        ("review", (-0.0354, -0.0335), "with nearly equal rewards"),  # a name that is two tokens shorter
        ("review", (-0.033, 0.0), None),  # a skill that nobody needs, beside none
        ("review", (0.25, 0.25), "with equal rewards"),
        ("solve", (0.0354, 0.0335), None),  # whatever the verifier measures
    ],
)
def test_reviews_that_differ_by_a_few_tokens_are_not_trained_on(
    kind: str, rewards: tuple[float, ...], reason: str | None
) -> None:
    scored = group(kind=kind, rewards=rewards, advantages=tuple(normalized_advantages(rewards)))
    assert refusal(scored, RULES) == reason


@pytest.mark.parametrize(
    ("kinds", "scale"), [(["solve"], "group"), (["review"], "batch"), (["solve", "review"], "batch")]
)
def test_values_of_reviews_keep_their_size_within_a_round(kinds: list[str], scale: str) -> None:
    assert scaling([group(kind=kind) for kind in kinds]) == scale


def test_an_older_policy_is_trained_on_where_the_lock_lets_it() -> None:
    assert refusal(group(policy="before"), RULES._replace(policies=("before", "now"))) is None


@given(st.lists(st.sampled_from([*SPOILT, ""])))
def test_every_group_is_used_or_counted(reasons: list[str]) -> None:
    groups = [group(f"t{n}", **SPOILT.get(reason, {})) for n, reason in enumerate(reasons)]
    gated = filter_groups(groups, RULES)
    assert gated.refused == dict(Counter(reason for reason in reasons if reason))
    assert len(gated.groups) + sum(gated.refused.values()) == len(groups)


def test_the_order_is_that_of_the_tasks_not_of_the_log() -> None:
    groups = [group("b"), group("a")]
    assert filter_groups(groups, RULES) == filter_groups(groups[::-1], RULES)
