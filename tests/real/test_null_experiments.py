"""Where nothing differs, 5 of 100 experiments may show a difference: many of them, from rows to verdict."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from fakes.paired_frames import experiment
from scipy import stats

from hermes_lab.analysis.comparison.compare import compare_frames
from hermes_lab.analysis.comparison.decomposition import decompose
from hermes_lab.analysis.comparison.pairs import ARM_PLACE
from hermes_lab.analysis.comparison.result import Comparison
from hermes_lab.analysis.stats.paired import sign_flip, units_of

pytestmark = pytest.mark.long

EXPERIMENTS = int(os.environ.get("SIMULATIONS", "160"))
"""`make simulations` has 1,000."""
FALSE_ALARM = 1e-5
"""The chance that a right method is refused by one bound, with other seeds than these."""


def assert_about(share: float, wanted: Sequence[float]) -> None:
    """The mean of `wanted` is within the binomial bounds of `share`, with a chance of FALSE_ALARM at either end."""
    low, high = stats.binom.ppf((FALSE_ALARM, 1 - FALSE_ALARM), len(wanted), share)
    assert low <= sum(wanted) <= high, f"{sum(wanted)} of {len(wanted)}"


def too_many() -> int:
    """The largest number of significant experiments that a right method has, but for a chance of FALSE_ALARM."""
    return int(stats.binom.ppf(1 - FALSE_ALARM, EXPERIMENTS, 0.05))


def null_report(luck: float, seed: int) -> Comparison:
    frame = experiment({"off": 0.5, "on": 0.5}, lanes=20, tasks=10, luck=luck, slope=0.05, seed=seed)
    sides = (frame[frame["arm"] == arm] for arm in ("off", "on"))
    return compare_frames(*sides, ARM_PLACE, ("off", "on"))


@pytest.mark.parametrize("luck", [0.0, 0.7], ids=["lanes alike", "lanes of different luck"])
def test_null_arm_is_significant_in_five_of_a_hundred_experiments(luck: float) -> None:
    reports = [null_report(luck, seed) for seed in range(EXPERIMENTS)]
    headlines = [report.headline for report in reports]
    assert_about(0.05, [c.p_value < 0.05 for c in headlines])
    assert all(c.shown == (c.p_value < 0.05) == (not c.interval.low <= 0 <= c.interval.high) for c in headlines)
    slopes = [r.slope.p_value for r in reports if r.slope and r.slope.p_value is not None]
    assert len(slopes) == EXPERIMENTS
    assert_about(0.05, [p < 0.05 for p in slopes])
    if luck:  # what taking every pair as independent would say
        assert sum(c.mcnemar < 0.05 for c in headlines) > too_many()


def test_interaction_that_is_not_there_is_significant_in_five_of_a_hundred_experiments() -> None:
    """The new weights are much better, so the two changes that are subtracted have other variances."""
    truth = {"lanes": 20, "tasks": 8, "luck": 0.7, "weights": 2, "difficulty": 0.0}
    found = [
        decompose(experiment({"off": 0.5, "on": 0.5}, weights_effect=1.0, seed=s, **truth))
        for s in range(EXPERIMENTS // 2)
    ]
    assert_about(0.05, [each.interaction.p_value < 0.05 for each in found])
    assert_about(0.05, [each.skills.p_value < 0.05 for each in found])
    assert_about(0.95, [each.interaction.interval.low <= 0 <= each.interaction.interval.high for each in found])
    assert np.mean([each.weights.shown for each in found]) > 0.95


@pytest.mark.parametrize(
    "design",
    [
        {"worlds": 5, "lanes": 20, "tasks": 3, "common": 1.0},
        {"worlds": 5, "lanes": 20, "tasks": 10, "common": 0.5},
        {"worlds": 1, "lanes": 10, "tasks": 20, "luck": 0.7, "common": 0.5},
        {"worlds": 20, "lanes": 20, "tasks": 5, "world_luck": 0.7},
        {"worlds": 10, "lanes": 40, "tasks": 5, "world_luck": 0.7, "luck": 0.4, "common": 0.5},
    ],
    ids=[
        "replicates are copies",
        "replicates are half copies",
        "lanes and shared tasks",
        "worlds differ",
        "worlds differ, replicates alike",
    ],
)
def test_replicates_and_worlds_do_not_make_a_difference_of_nothing(design: dict[str, Any]) -> None:
    found = []
    for seed in range(EXPERIMENTS):
        frame = experiment({"off": 0.5, "on": 0.5}, **design, seed=seed)
        before, after = (frame[frame["arm"] == arm] for arm in ("off", "on"))
        change_P = after["success"].to_numpy(np.int64) - before["success"].to_numpy(np.int64)
        together = units_of(before)
        lane_P = before["replicate"].to_numpy()
        found.append((together.p_value(change_P), sign_flip(change_P, lane_P), *together.interval(change_P)))
    p_value, over_lanes, low, high = np.array(found).T
    assert np.sum(p_value < 0.05) <= too_many()
    assert np.sum((low > 0) | (high < 0)) <= too_many()
    if design.get("common"):  # what lanes as independent ones would say
        assert np.sum(over_lanes < 0.05) > too_many()
