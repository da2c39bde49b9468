import itertools
import math
from collections.abc import Sequence
from functools import partial

import numpy as np
import pytest
import statsmodels.api as sm
from fakes.paired_frames import experiment
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize_scalar
from scipy.special import xlogy
from scipy.stats import permutation_test
from statsmodels.stats.contingency_tables import mcnemar as reference_mcnemar
from statsmodels.stats.multitest import multipletests

from hermes_lab.analysis.stats.intervals import Interval, Rate, mover_sum
from hermes_lab.analysis.stats.multiple import holm
from hermes_lab.analysis.stats.paired import (
    LEVEL,
    Codes,
    Integers,
    change_interval,
    clustered_error,
    encode,
    intraclass_correlation,
    invert,
    mcnemar,
    sign_flip,
    units,
    units_of,
)
from hermes_lab.analysis.stats.rates import MIN_UNITS


@pytest.mark.parametrize(("lost", "gained"), [(1, 23), (0, 6), (12, 30), (40, 3)])
def test_mcnemar_is_the_exact_test_of_statsmodels_with_half_of_the_observed_count(lost: int, gained: int) -> None:
    exact = reference_mcnemar([[40, lost], [gained, 20]], exact=True).pvalue
    assert mcnemar(lost, gained) == pytest.approx(exact - math.comb(lost + gained, lost) / 2 ** (lost + gained))


def test_mcnemar_is_that_of_a_published_example() -> None:
    """Fagerland, Lydersen and Laake 2013, table 2: exact 0.070, mid-p 0.039."""
    assert mcnemar(1, 7) == pytest.approx(0.039, abs=5e-4)
    assert mcnemar(7, 7) == pytest.approx(1 - math.comb(14, 7) / 2**15)
    assert mcnemar(0, 0) == 1.0


def by_counting(sums: Sequence[int]) -> float:
    """The mid-p over all flips."""
    flips = np.array([abs(np.dot(signs, sums)) for signs in itertools.product((-1, 1), repeat=len(sums))])
    return float((flips > abs(sum(sums))).mean() + (flips == abs(sum(sums))).mean() / 2) if any(sums) else 1.0


def of_sums(sums: Sequence[int]) -> tuple[Integers, Codes]:
    """Changes of -1, 0 and 1 with these sums, and their units."""
    changes = [np.full(abs(s), np.sign(s)) for s in sums] + [np.zeros(len(sums))]
    unit_P = np.concatenate([np.full(abs(s), unit) for unit, s in enumerate(sums)] + [np.arange(len(sums))])
    return np.concatenate(changes).astype(np.int64), unit_P.astype(np.intp)


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=9))
def test_sign_flip_counts_every_way_to_swap_the_sides(sums: list[int]) -> None:
    assert sign_flip(*of_sums(sums)) == pytest.approx(by_counting(sums))


def test_many_equal_sums_are_counted_as_one_by_one() -> None:
    """20 units with a sum of 2 and one of 3: of the 2^21 flips one, and its opposite, is as extreme."""
    assert sign_flip(*of_sums([2] * 20 + [3])) == pytest.approx(2**-21)
    assert sign_flip(*of_sums([2] * 19 + [-2])) == pytest.approx(2**-19 + 20 * 2**-20)


def test_sign_flip_is_scipys_permutation_test_of_paired_samples() -> None:
    draw = np.random.default_rng(0)
    sums_C = draw.integers(-2, 6, size=10)
    reference = permutation_test(
        (sums_C, np.zeros(10)), lambda x, y, axis: (x - y).sum(axis=axis), permutation_type="samples", n_resamples=10**5
    )
    flips, seen = np.abs(reference.null_distribution), abs(sums_C.sum())
    expected = (flips > seen).mean() + (flips == seen).mean() / 2
    assert sign_flip(*of_sums(sums_C.tolist())) == pytest.approx(float(expected), abs=1e-9)


@given(st.lists(st.integers(-1, 1), min_size=1, max_size=60))
def test_with_one_pair_a_unit_sign_flip_is_mcnemar(changes: list[int]) -> None:
    change_P = np.array(changes, dtype=np.int64)
    assert sign_flip(change_P, np.arange(len(changes))) == mcnemar(changes.count(-1), changes.count(1))


def test_pairs_of_a_lane_move_together_from_six_lanes_on() -> None:
    for lanes, over, expected in ((MIN_UNITS, "lanes", MIN_UNITS), (MIN_UNITS - 1, "tasks", 4 * (MIN_UNITS - 1))):
        lane_P = np.repeat(np.arange(lanes), 4)
        found = units(np.zeros_like(lane_P), lane_P, np.arange(4 * lanes))
        assert (found.over, [len(set(unit_P.tolist())) for unit_P in found.clusterings]) == (over, [expected])
        assert found.limit() == ("this world only" if over == "lanes" else "these 5 lanes only")


def test_lanes_of_a_world_move_together_from_six_worlds_on() -> None:
    lane_P = np.repeat(np.arange(12), 3)
    for worlds, over in ((6, "worlds"), (5, "lanes")):
        world_P = lane_P % worlds
        found = units(world_P, lane_P, np.arange(36))
        assert found.over == over
        assert found.clusterings[0].tolist() == (world_P if over == "worlds" else lane_P).tolist()
    assert found.of(36, "pairs") == "36 pairs in 12 lanes of 5 worlds"


def test_replicates_that_share_tasks_are_judged_by_lane_and_by_task() -> None:
    """Ten replicates answer the same five tasks alike: over lanes alone p would be 0.002."""
    lane_P, task_P = np.repeat(np.arange(10), 5), np.tile(np.arange(5), 10)
    found = units(np.zeros_like(lane_P), lane_P, task_P)
    change_P = np.ones(50, dtype=np.int64)
    assert found.over == "lanes and tasks"
    assert sign_flip(change_P, lane_P) == pytest.approx(1 / 2**10)
    assert found.p_value(change_P) == pytest.approx(1 / 2**5)
    assert found.of(50, "pairs") == "50 pairs of 5 tasks in 10 lanes"


def test_tasks_that_few_lanes_share_are_one_unit_each() -> None:
    lane_P, task_P = np.repeat(np.arange(4), 10), np.tile(np.arange(10), 4)
    found = units(np.zeros_like(lane_P), lane_P, task_P)
    assert (found.over, found.tasks) == ("tasks", 10)
    assert found.clusterings[0].tolist() == task_P.tolist()


def test_wider_interval_of_both_ways_holds() -> None:
    """Tasks that all lanes lose or gain together: over lanes there is no spread at all."""
    lane_P, task_P = np.repeat(np.arange(8), 10), np.tile(np.arange(10), 8)
    change_P = (task_P < 6).astype(np.int64)
    found = units(np.zeros_like(lane_P), lane_P, task_P)
    over_lanes, over_tasks = (change_interval(change_P, unit_P) for unit_P in found.clusterings)
    assert over_tasks.width > over_lanes.width + 0.1
    assert found.interval(change_P) == over_tasks


def test_samples_of_one_task_are_one_unit() -> None:
    one_P = np.zeros(6, dtype=np.intp)
    (unit_P,) = units(one_P, one_P, encode(["a", "a", "b", "b", "c", "c"])).clusterings
    assert unit_P.tolist() == [0, 0, 1, 1, 2, 2]
    assert sign_flip(np.ones(6, dtype=np.int64), unit_P) == pytest.approx(0.125)


def test_samples_that_agree_widen_the_interval() -> None:
    change_P = np.repeat(np.arange(10) < 7, 6).astype(np.int64)
    together, alone = (change_interval(change_P, unit_P) for unit_P in (np.repeat(np.arange(10), 6), np.arange(60)))
    assert together.low < alone.low - 0.1


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=30))
def test_interval_excludes_zero_exactly_if_the_test_is_significant(counts: list[tuple[int, int, int]]) -> None:
    """Lost, gained and unchanged pairs of each unit."""
    changes = [[-1] * lost + [1] * gained + [0] * same for lost, gained, same in counts]
    change_P = np.array(list(itertools.chain(*changes)), dtype=np.int64)
    if not len(change_P):
        return
    unit_P = encode([unit for unit, each in enumerate(changes) for _ in each])
    low, high = change_interval(change_P, unit_P)
    assert (low > 0 or high < 0) == (sign_flip(change_P, unit_P) < LEVEL)
    assert -1 <= low <= change_P.mean() <= high <= 1
    assert change_interval(-change_P, unit_P) == pytest.approx((-high, -low), abs=0.01)


def test_interval_holds_the_differences_that_the_test_does_not_reject() -> None:
    """By counting all flips of the 2^10 at each of 2,000 differences."""
    draw = np.random.default_rng(3)
    sums_C, sizes_C = draw.integers(-2, 8, size=10), draw.integers(8, 12, size=10)
    signs = np.array(list(itertools.product((-1, 1), repeat=10)))
    kept = []
    for difference in np.linspace(-1, 1, 2001):
        shifted_C = sums_C - difference * sizes_C
        flips, seen = np.abs(signs @ shifted_C), abs(shifted_C.sum())
        if (flips > seen + 1e-9).mean() + (np.abs(flips - seen) <= 1e-9).mean() / 2 >= LEVEL:
            kept.append(difference)
    change_P = np.concatenate(
        [[np.sign(s)] * abs(s) + [0] * (n - abs(s)) for s, n in zip(sums_C, sizes_C, strict=True)]
    )
    assert change_interval(change_P.astype(np.int64), np.repeat(np.arange(10), sizes_C)) == pytest.approx(
        (kept[0], kept[-1]), abs=0.003
    )


@pytest.mark.parametrize("change", [0, 1, -1])
def test_units_that_all_agree_leave_an_interval_with_a_width(change: int) -> None:
    """Tango's (1998) ends for n independent pairs: z^2 / (n + z^2) where all stay the same, and (n - z^2) / (n + z^2)
    where all change."""
    low, high = change_interval(np.full(50, change), np.arange(50))
    z2 = 1.96**2
    same, all_change = z2 / (50 + z2), (50 - z2) / (50 + z2)
    ends = {0: (-same, same), 1: (all_change, 1), -1: (-1, -all_change)}
    assert (low, high) == pytest.approx(ends[change], abs=1e-3)


def by_likelihood(lost: int, gained: int, pairs: int, difference: float) -> float:
    """The score statistic of a difference; its nuisance parameter from a numeric search for the likeliest value."""

    def unlikelihood(chance: float) -> float:
        chances = (chance, chance + difference, 1 - 2 * chance - difference)
        return -float(xlogy((lost, gained, pairs - lost - gained), chances).sum())

    limits = (max(0.0, -difference), (1 - difference) / 2)
    chance = minimize_scalar(unlikelihood, bounds=limits, method="bounded", options={"xatol": 1e-12}).x
    return (gained - lost - pairs * difference) / math.sqrt(pairs * (2 * chance + difference - difference**2))


@pytest.mark.parametrize(("lost", "gained", "pairs"), [(0, 39, 40), (20, 20, 60), (2, 12, 50), (1, 2, 6)])
def test_interval_of_independent_pairs_is_the_score_interval(lost: int, gained: int, pairs: int) -> None:
    change_P = np.repeat([-1, 1, 0], [lost, gained, pairs - lost - gained])
    low, high = change_interval(change_P, np.arange(pairs))
    score = partial(by_likelihood, lost, gained, pairs)
    expected_low = brentq(lambda difference: score(difference) - 1.96, -0.999, change_P.mean())
    expected_high = brentq(lambda difference: score(difference) + 1.96, change_P.mean(), 0.9999)
    assert (low, high) == pytest.approx((expected_low, expected_high), abs=3e-4)


def test_interval_of_a_ratio_is_fiellers() -> None:
    """Fieller 1954, over 40 units, with sums of squares about zero: a sign flip keeps them."""
    draw = np.random.default_rng(0)
    possible_C = draw.integers(2, 9, size=40).astype(float)
    reached_C = np.rint(possible_C * draw.uniform(0.2, 0.8, size=40))
    z2 = 1.96**2
    a = possible_C.sum() ** 2 - z2 * possible_C @ possible_C
    b = reached_C.sum() * possible_C.sum() - z2 * reached_C @ possible_C
    c = reached_C.sum() ** 2 - z2 * reached_C @ reached_C
    root = math.sqrt(b * b - a * c)
    found = invert(reached_C, possible_C, Interval(-10, 10), lambda _: 0.0, zero=False)
    assert found == pytest.approx(((b - root) / a, (b + root) / a), abs=1e-3)


def test_clustered_error_is_that_of_statsmodels() -> None:
    draw = np.random.default_rng(0)
    unit_P = draw.integers(0, 9, size=80)
    value_P = draw.integers(-1, 2, size=80) + 0.3 * unit_P
    fitted = sm.OLS(value_P, np.ones(80)).fit(cov_type="cluster", cov_kwds={"groups": unit_P, "use_correction": False})
    assert clustered_error(value_P, unit_P) == pytest.approx(float(fitted.bse[0]) * math.sqrt(9 / 8), abs=1e-9)
    assert math.isnan(clustered_error(value_P, np.zeros(80, dtype=np.intp)))


def test_intraclass_correlation_finds_what_lanes_share() -> None:
    draw = np.random.default_rng(0)
    unit_P = np.repeat(np.arange(300), 8)
    shared = draw.standard_normal(300)[unit_P] + 2 * draw.standard_normal(2400)
    assert intraclass_correlation(shared, unit_P) == pytest.approx(0.2, abs=0.03)
    assert intraclass_correlation(np.ones(16), np.repeat([0, 1], 8)) == 0.0
    assert intraclass_correlation(np.arange(4.0), np.arange(4)) == 0.0


@settings(max_examples=20)  # theirs takes 50 ms
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_is_that_of_statsmodels(p_values: list[float]) -> None:
    assert holm(p_values) == pytest.approx(list(multipletests(p_values, method="holm")[1]), abs=1e-12)


def test_no_test_has_no_adjustment() -> None:
    assert holm([]) == []


def test_sum_of_two_intervals_is_newcombes_difference_of_proportions() -> None:
    """Newcombe 1998, method 8, is the same construction."""
    a, b = Rate(56, 70), Rate(48, 80)
    low, high = mover_sum(a.value, a.interval, -b.value, Interval(-b.interval.high, -b.interval.low), 0.0)
    assert (low, high) == (pytest.approx(0.0524, abs=5e-5), pytest.approx(0.3339, abs=5e-5))


def test_intervals_of_estimates_that_move_together_do_not_add_up() -> None:
    one = Interval(-0.1, 0.1)
    assert mover_sum(0.0, one, 0.0, one, -1.0).width == pytest.approx(0.0)
    assert mover_sum(0.0, one, 0.0, one, 1.0).width == pytest.approx(0.4)


@pytest.mark.parametrize("worlds", [1, 8])
def test_copies_of_a_lane_are_no_new_evidence(worlds: int) -> None:
    """Twenty-four replicates with the outcomes of one: over lanes far more than 5 of 100 nulls are significant."""
    p_values, over_lanes = [], []
    for seed in range(60):
        frame = experiment({"off": 0.5, "on": 0.5}, worlds=worlds, lanes=24, tasks=8, common=1.0, seed=seed)
        before, after = (frame.loc[frame["arm"] == arm, "success"].to_numpy(np.int64) for arm in ("off", "on"))
        places = frame[frame["arm"] == "off"]
        p_values.append(units_of(places).p_value(after - before))
        over_lanes.append(sign_flip(after - before, places["replicate"].to_numpy()))
    assert np.mean(np.array(p_values) < 0.05) <= 0.1
    assert np.mean(np.array(over_lanes) < 0.05) > 0.15
