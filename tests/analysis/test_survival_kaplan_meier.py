import math

import numpy as np
import pytest
from statsmodels.duration.survfunc import SurvfuncRight

from hermes_lab.analysis.stats.intervals import Z95
from hermes_lab.analysis.survival.kaplan_meier import kaplan_meier
from hermes_lab.errors import ConfigError

# Six tasks: solved at 1, 2, 2 and 5 s; cut off at 2 and 3 s.
TIMES, CENSORED = [1, 2, 2, 2, 3, 5], [False, False, False, True, True, False]


def test_table_by_hand() -> None:
    curve = kaplan_meier(TIMES, CENSORED)
    assert curve.times_T.tolist() == [1, 2, 5]
    assert curve.at_risk_T.tolist() == [6, 5, 1]
    assert curve.solved_T.tolist() == [1, 2, 1]
    assert curve.survival_T == pytest.approx([5 / 6, 5 / 6 * 3 / 5, 0])
    # Greenwood: S sqrt(sum d / (n (n - d))).
    sums = [1 / (6 * 5), 1 / (6 * 5) + 2 / (5 * 3)]
    assert curve.error_T == pytest.approx([5 / 6 * math.sqrt(sums[0]), 1 / 2 * math.sqrt(sums[1]), 0])
    reach = math.exp(Z95 * math.sqrt(sums[1]) / math.log(2))
    assert [curve.low_T[1], curve.high_T[1]] == pytest.approx([0.5**reach, 0.5 ** (1 / reach)])
    assert np.isnan([curve.low_T[2], curve.high_T[2]]).all()
    assert curve.median.value == 2


@pytest.mark.parametrize("seed", range(5))
def test_same_as_statsmodels(seed: int) -> None:
    draw = np.random.default_rng(seed)
    # Rounded, so that there are ties.
    times, censored = draw.exponential(10, 80).round(), draw.random(80) < 0.3
    curve, theirs = kaplan_meier(times, censored), SurvfuncRight(times, ~censored)
    assert curve.times_T.tolist() == theirs.surv_times.tolist()
    assert curve.survival_T == pytest.approx(theirs.surv_prob, abs=1e-12)
    whole = curve.survival_T > 0
    assert curve.error_T[whole] == pytest.approx(theirs.surv_prob_se[whole], abs=1e-12)
    assert curve.median.value == theirs.quantile(0.5)
    with np.errstate(divide="ignore", invalid="ignore"):
        assert tuple(curve.median.interval) == pytest.approx(theirs.quantile_ci(0.5, method="cloglog"))


def test_the_median_of_so_many_tasks_is_where_exactly_half_are_solved() -> None:
    for tasks in range(1, 401):
        solved_at = np.arange(1, tasks + 1)
        assert kaplan_meier(solved_at, np.zeros(tasks)).median.value == (tasks + 1) // 2
        # A task that is cut off before the first event changes nothing.
        assert kaplan_meier([0, *solved_at], [True, *np.zeros(tasks)]).median.value == (tasks + 1) // 2


def test_median_that_is_not_reached_is_infinite() -> None:
    median = kaplan_meier([1, 2, 9, 9, 9, 9], [False, False, True, True, True, True]).median
    assert median.value == math.inf
    assert median.interval.high == math.inf
    assert str(median).startswith("not reached (from ")


def test_cutting_off_early_does_not_lower_the_curve() -> None:
    """A failure that is dropped, or taken for solved, changes the curve; one that is cut off does not."""
    whole = kaplan_meier([1, 2, 3, 4], [False] * 4)
    cut = kaplan_meier([0.5, 1, 2, 3, 4], [True, *[False] * 4])
    assert cut.survival_T.tolist() == whole.survival_T.tolist()


def test_nothing_solved_leaves_everything_unsolved() -> None:
    curve = kaplan_meier([3, 3], [True, True])
    assert curve.times_T.size == 0
    assert curve.median.value == math.inf
    assert str(curve.median) == "not reached"


@pytest.mark.parametrize(("times", "censored"), [([], []), ([1, 2], [True]), ([-1], [False]), ([math.nan], [False])])
def test_times_that_cannot_be_are_refused(times: list[float], censored: list[bool]) -> None:
    with pytest.raises(ConfigError, match="times"):
        kaplan_meier(times, censored)
