"""The variance of a review's reward, and how many follow-ups show a difference."""

import random
import re
from pathlib import Path
from statistics import NormalDist, fmean, pvariance

import pytest

from hermes_lab.envs.learning.config import ReviewWorth
from hermes_lab.envs.learning.knowledge import Added
from hermes_lab.envs.learning.variance import followups_needed, value_variance
from hermes_lab.envs.learning.worth import review_reward
from hermes_lab.errors import ConfigError

PAGE = Path("docs/learning-episodes.md")
FREE = ReviewWorth(tasks=1, followups=1, repeats=1, listed_cost=0, body_cost=0)
DRAWS = 4000


def share(draws: random.Random, rates: list[float], repeats: int) -> float:
    """The share of solved follow-ups."""
    return fmean(draws.random() < rate for rate in rates for _ in range(repeats))


def rewards(after: list[float], before: list[float], repeats: int) -> list[float]:
    draws = random.Random(0)
    nothing = Added(0.0, 0.0)
    return [
        review_reward(share(draws, before, repeats), share(draws, after, repeats), nothing, FREE).value
        for _ in range(DRAWS)
    ]


@pytest.mark.parametrize(
    ("with_", "without", "followups", "repeats"), [(0.5, 0.2, 4, 1), (0.9, 0.4, 2, 3), (1.0, 0.0, 3, 2)]
)
def test_the_variance_of_a_reward_is_its_formula(with_: float, without: float, followups: int, repeats: int) -> None:
    found = rewards([with_] * followups, [without] * followups, repeats)
    expected = value_variance(with_, without, followups, repeats)
    assert fmean(found) == pytest.approx(with_ - without, abs=4 * (expected / DRAWS) ** 0.5 + 1e-12)
    assert pvariance(found) == pytest.approx(expected, rel=0.1)


def test_tasks_of_unequal_difficulty_vary_less_than_the_formula_for_their_mean() -> None:
    found = rewards([0.1, 0.9], [0.0, 0.4], 1)
    exact = (0.09 + 0.09 + 0.24) / 4
    assert pvariance(found) == pytest.approx(exact, rel=0.1)
    assert exact < value_variance(0.5, 0.2, 2, 1)


def group_rewards(after: list[float | None], before: float, size: int) -> list[list[float]]:
    """The rewards of the reviews of a group, often. Each is the rate with its library, None for one that wrote nothing;
    equal rates stand for the same library, and are measured once."""
    draws, nothing = random.Random(2), Added(0.0, 0.0)
    found = []
    for _ in range(DRAWS):
        without = share(draws, [before] * size, 1)
        measured = {rate: share(draws, [rate] * size, 1) for rate in dict.fromkeys(after) if rate is not None}
        found.append(
            [0.0 if rate is None else review_reward(without, measured[rate], nothing, FREE).value for rate in after]
        )
    return found


def test_the_difference_of_two_reviews_varies_as_the_page_says() -> None:
    """Two writers share the rollouts before; a review that wrote nothing has a reward of exactly 0; one library is
    measured once."""
    a1, a2, before, size = 0.5, 0.8, 0.3, 4
    groups = group_rewards([a1, a2, a1, None, None], before, size)

    def spread(one: int, other: int) -> float:
        return pvariance([rewards[one] - rewards[other] for rewards in groups])

    assert spread(0, 1) == pytest.approx((a1 * (1 - a1) + a2 * (1 - a2)) / size, rel=0.1)
    assert spread(0, 3) == pytest.approx((a1 * (1 - a1) + before * (1 - before)) / size, rel=0.1)
    assert spread(0, 2) == spread(3, 4) == 0.0
    shared = fmean(one * other for one, other, *_ in groups) - fmean(g[0] for g in groups) * fmean(g[1] for g in groups)
    assert shared == pytest.approx(before * (1 - before) / size, rel=0.2)  # the error that all writers share


@pytest.mark.parametrize(("with_", "without"), [(0.5, 0.2), (0.9, 0.4), (0.6, 0.5)])
def test_the_number_of_follow_ups_gives_that_power(with_: float, without: float) -> None:
    needed, draws = followups_needed(with_, without), random.Random(1)
    bound = NormalDist().inv_cdf(0.975)
    seen = 0
    for _ in range(1000):
        a, b = share(draws, [with_], needed), share(draws, [without], needed)
        error = value_variance(a, b, needed, 1) ** 0.5
        seen += abs(a - b) > bound * error
    assert 0.74 < seen / 1000 < 0.87


def test_the_page_has_the_numbers_of_the_formula() -> None:
    rows = re.findall(r"^\| (\d+) % -> (\d+) % \| (\d+) \| ([\d.]+) \|$", PAGE.read_text(), re.MULTILINE)
    assert len(rows) == 5
    for before, after, needed, deviation in rows:
        with_, without = int(after) / 100, int(before) / 100
        assert followups_needed(with_, without) == int(needed)
        assert f"{value_variance(with_, without, 4, 1) ** 0.5:.2f}" == deviation


def test_rates_that_are_none_are_refused() -> None:
    with pytest.raises(ConfigError, match="no difference to see"):
        followups_needed(0.5, 0.5)
    with pytest.raises(ConfigError, match=r"with: 1\.5 is not a success rate"):
        value_variance(1.5, 0.5, 1, 1)
