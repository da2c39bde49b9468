"""The standard error of the mean value of reviews, which takes a learning episode as a cluster."""

import random
from statistics import fmean, pstdev

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_lab.envs.learning.worth import MeanValue, ReviewValue, mean_value
from hermes_lab.types import Reward


def value(lane: int, reward: float) -> ReviewValue:
    terms = {"with": reward, "without": 0.0, "listed": 0.0, "body": 0.0}
    counts = {"rollouts": 4, "solved_before": 0, "solved_after": 0, "listed": 0.0, "body": 0.0}
    key = f"ledger|t|on-r0-w{lane}|0|0"
    return ReviewValue(
        episode=key,
        fork=0,
        policy="p",
        before="b",
        after="a",
        reward=Reward(reward, terms),
        **counts,  # type: ignore[arg-type]
    )


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=8))
def test_with_one_review_each_it_is_the_usual_standard_error(rewards: list[float]) -> None:
    found = mean_value(value(lane, reward) for lane, reward in enumerate(rewards))
    deviation = (sum((each - fmean(rewards)) ** 2 for each in rewards) / (len(rewards) - 1)) ** 0.5
    assert found.episodes == len(rewards)
    assert found.error == pytest.approx(deviation / len(rewards) ** 0.5, abs=1e-12)


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=8), st.integers(1, 5))
def test_copies_within_a_learning_episode_make_it_no_smaller(rewards: list[float], copies: int) -> None:
    once = mean_value(value(lane, reward) for lane, reward in enumerate(rewards))
    often = mean_value(value(lane, reward) for lane, reward in enumerate(rewards) for _ in range(copies))
    assert often.error == pytest.approx(once.error, abs=1e-12)


def test_it_is_how_much_the_mean_varies_where_reviews_share_an_error() -> None:
    """Reviews of a learning episode share an error; taking them for independent would give less than half of it."""
    draws = random.Random(0)
    means, errors = [], []
    for _ in range(600):
        shared = [draws.gauss(0, 0.3) for _ in range(16)]
        found = mean_value(
            value(lane, each + draws.gauss(0, 0.1)) for lane, each in enumerate(shared) for _ in range(8)
        )
        means.append(found.value)
        errors.append(found.error or 0.0)
    assert fmean(errors) == pytest.approx(pstdev(means), rel=0.1)


def test_one_learning_episode_has_none_and_says_so() -> None:
    found = mean_value([value(0, 0.0), value(0, 1.0)])
    assert (found.episodes, found.error) == (1, None)
    assert "standard error unknown from 1 learning episode" in found.sentence()
    two = mean_value([value(0, 0.0), value(1, 1.0)])
    assert "(+0.500 success, no cost), standard error 0.500 over 2 learning episodes; " in two.sentence()


def test_records_of_older_versions_have_none() -> None:
    old = msgspec.json.decode(b'{"reviews":2,"wrote":1,"value":0.5,"uplift":0.5}', type=MeanValue)
    assert (old.episodes, old.error) == (0, None)
    assert "standard error" not in old.sentence()
