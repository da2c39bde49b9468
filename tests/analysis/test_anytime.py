"""The test that may be looked at after every unit: its martingale by enumeration, its interval by search."""

import itertools
import math

import numpy as np
import pytest

from hermes_lab.analysis.stats.anytime import (
    ENOUGH,
    bets_for,
    log_evidence,
    look,
    rejected,
    sequential_power,
    units_needed,
)
from hermes_lab.analysis.stats.power import Lanes, pair_rates

BETS = bets_for(0.6, 0.16)


def all_flips(sizes: list[int]) -> np.ndarray:
    """Every way to give the sizes a sign, a row each: under the null all are equally likely."""
    return np.array(list(itertools.product((-1, 1), repeat=len(sizes)))) * sizes


def test_the_evidence_has_mean_1_after_every_unit_if_signs_are_random() -> None:
    flips = all_flips([3, 1, 0, 5, 12, 2, 2, 1])
    means = np.exp(log_evidence(flips, BETS)).mean(axis=0)
    assert means == pytest.approx(np.ones(8), abs=1e-12)


@pytest.mark.parametrize("sizes", [[1] * 14, [4, 3, 5, 2, 6, 1, 3, 4, 2, 5, 3, 4, 1, 2], [12] * 14, [9, 1] * 7])
def test_looking_after_every_unit_errs_in_5_of_100_experiments_at_most(sizes: list[int]) -> None:
    most = log_evidence(all_flips(sizes), BETS).max(axis=1)
    share = (most >= math.log(ENOUGH)).mean()
    assert 0 < share <= 0.05


def test_nothing_is_shown_before_the_sixth_unit() -> None:
    sums = np.full(6, 1e6)
    evidence = np.exp(log_evidence(sums, BETS))
    assert evidence[-2] == pytest.approx(16)
    assert evidence[-1] == pytest.approx(32)


def test_the_evidence_is_that_of_the_formula() -> None:
    sums, bets = [2.0, -1.0, 3.0], np.array([0.5, 1.5])
    by_hand = np.mean([np.prod([math.exp(b * s) / math.cosh(b * s) for s in sums]) for b in (0.5, 1.5, -0.5, -1.5)])
    assert math.exp(log_evidence(sums, bets)[-1]) == pytest.approx(by_hand)


def test_the_largest_bet_is_the_expected_change_of_a_pair_over_its_variance() -> None:
    rates = pair_rates(0.6, 0.16)
    variance = rates.gained + rates.lost - 0.16**2
    assert BETS[-1] == pytest.approx(0.16 / variance)
    assert bets_for(0.6, -0.16)[-1] > 0
    assert bets_for(0.6, 0.0)[-1] > 0  # without a plan the test still works


def test_zero_is_outside_the_interval_exactly_if_a_difference_is_shown() -> None:
    draw = np.random.default_rng(3)
    shown = 0
    for _ in range(150):
        sizes = draw.integers(1, 13, int(draw.integers(1, 25))).astype(float)
        sums = draw.binomial(sizes.astype(int), draw.uniform(0.3, 1.0)) - draw.binomial(sizes.astype(int), 0.3)
        found = look(sums.astype(float), sizes, BETS)
        shown += found.shown
        assert found.shown == (found.interval.low > 0 or found.interval.high < 0)
        assert found.interval.low <= found.interval.high
        assert found.shown == (found.p_value <= 0.05)
    assert 20 < shown < 120


def test_the_interval_holds_the_differences_that_are_not_rejected() -> None:
    sums, sizes = np.array([3.0, 1, 4, 2, -1, 5, 2, 3]), np.full(8, 12.0)
    found = look(sums, sizes, BETS)

    def possible(value: float) -> bool:
        log = log_evidence(sums - value * sizes, BETS[:2])[-1]
        part = abs(value) % 1
        far = (sums.sum() - value * 96) ** 2 > part * (1 - part) * 96 * (math.log(97) + 2 * math.log(20))
        return not (log >= math.log(20) and far)

    held = [value for value in np.arange(-1, 1, 0.001) if possible(value)]
    assert found.difference == pytest.approx(19 / 96)
    assert found.interval.low == pytest.approx(min(held), abs=0.0015)
    assert found.interval.high == pytest.approx(max(held), abs=0.0015)
    assert not rejected(sums, sizes, BETS, found.difference).any()


def test_a_look_is_that_of_its_units_alone() -> None:
    sums, sizes = np.array([8.0] * 9 + [-8.0] * 9), np.full(18, 12.0)
    early, late = look(sums[:9], sizes[:9], BETS), look(sums, sizes, BETS)
    assert early.shown
    assert not late.shown
    assert late.interval.low < late.difference == 0 < late.interval.high


def test_what_is_shown_has_the_direction_of_the_mean() -> None:
    draw = np.random.default_rng(4)
    shown = 0
    for _ in range(300):
        sums = draw.choice([-12.0, -1.0, 1.0, 2.0, 12.0], 20, p=draw.dirichlet(np.ones(5)))
        found = look(sums, np.full(20, 12.0), 4 * BETS)
        shown += found.shown
        assert not found.shown or min(found.interval) * found.difference > 0
    assert shown > 20


def test_units_that_all_agree_leave_an_interval_with_a_width() -> None:
    nothing = look(np.zeros(10), np.full(10, 12.0), BETS)
    assert not nothing.shown
    assert nothing.interval.low < -0.03
    assert nothing.interval.high > 0.03
    everything = look(np.full(10, 12.0), np.full(10, 12.0), BETS)
    assert everything.interval.low < 0.97
    assert everything.interval.high == 1


def test_a_look_the_other_way_round_has_the_other_signs() -> None:
    found = look(np.full(8, 6.0), np.full(8, 12.0), BETS)
    other = found.reversed()
    assert (other.difference, other.p_value) == (-0.5, found.p_value)
    assert other.interval == (-found.interval.high, -found.interval.low)


def test_the_computed_power_grows_with_the_truth_and_the_units() -> None:
    clusters = Lanes(20, what="worlds")
    none, planned, twice = (sequential_power(240, 0.6, 0.16, clusters, truth=truth) for truth in (0.0, 0.16, 0.32))
    assert none.power <= 0.05
    assert planned.power < twice.power
    assert planned.units > 1.3 * twice.units
    needed = units_needed(12, 0.6, 0.16, 20)
    assert needed is not None
    assert sequential_power(12 * needed, 0.6, 0.16, Lanes(needed), truth=0.16).power == pytest.approx(0.8, abs=0.04)
    assert units_needed(1, 0.6, 0.01, 6) is None
