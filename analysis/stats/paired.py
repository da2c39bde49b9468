"""One test, and the interval that it implies, for a mean paired change; valid if pairs are dependent.

A change is the outcome after minus the outcome before. Pairs are dependent: those of a lane share a library, lanes of a
world share its rules, replicates often share tasks, and samples share one task. Independent *units* are defined by
`Units`. The interval holds every difference that the test does not reject, so the two never contradict each other.
Array names end in their axes: P pairs, C units.
"""

import math
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from hermes_lab.analysis.curves import Array
from hermes_lab.analysis.stats.intervals import Z95, Interval, Rate
from hermes_lab.analysis.stats.rates import Over, clustered, over_of
from hermes_lab.text.counted import counted

Codes = npt.NDArray[np.intp]
Integers = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.floating]

LEVEL = 0.05
"""A two-sided p below this is significant; intervals are of one minus this."""
_GRID = 1000
"""Steps into which the largest possible sum is divided where sums are not whole numbers."""
_MANY_UNITS = 30
"""Beyond this number a flipped sum that is not a whole number is taken as normal: an interval differs by about
a hundredth of its width."""
_HALVINGS = 14
"""An end of an interval is exact to 2^-14 of the range."""
_MANY = 16
"""From this many equal sums on, one convolution with a binomial distribution is faster than one each."""
JUST_ABOVE = 1e-9
"""The end of an interval that excludes zero by its test alone."""


def encode(labels: Sequence[Hashable]) -> Codes:
    """Labels as integers from 0, in order of first appearance."""
    places: dict[Hashable, int] = {}
    return np.array([places.setdefault(label, len(places)) for label in labels], dtype=np.intp)


class Units(NamedTuple):
    """The clustering of pairs: by world with at least `MIN_UNITS` worlds; else by lane with as many lanes; else by
    task.

    If lanes are the units and share tasks, pairs of one task are dependent too. Then both clusterings are used
    (`clusterings`: the unit of each pair), and the larger p and the wider interval count. `over` names the clustering;
    `worlds`, `lanes` and `tasks` are counts.
    """

    over: Over
    clusterings: tuple[Codes, ...]
    lane_P: Codes
    task_P: Codes
    worlds: int
    lanes: int
    tasks: int
    shared: bool
    """Whether lanes share tasks."""

    def p_value(self, change_P: Integers) -> float:
        """The largest p of `sign_flip`."""
        return max(sign_flip(change_P, unit_P) for unit_P in self.clusterings)

    def interval(self, change_P: Integers) -> Interval:
        """The smallest interval that contains those of `change_interval`."""
        return self.widest(lambda unit_P: change_interval(change_P, unit_P))

    def rate(self, success_P: npt.NDArray[np.bool_ | np.int64]) -> Rate:
        """The rate of outcomes, 0 or 1, with the widest interval over the clusterings, as `rates.rate_over`."""
        same = success_P.all() or not success_P.any()
        solved_P = success_P.astype(np.int64)
        return clustered(
            list(zip(np.bincount(unit_P, solved_P).astype(int).tolist(), np.bincount(unit_P).tolist(), strict=True))
            for unit_P in ((self.task_P,) if same else self.clusterings)
        )

    def error(self, value_P: Array) -> float:
        """The largest `clustered_error` of a mean; NaN for a single unit."""
        return float(np.max([clustered_error(value_P, unit_P) for unit_P in self.clusterings]))

    def widest(self, interval: Callable[[Codes], Interval]) -> Interval:
        """The smallest interval that contains those of all clusterings."""
        found = [interval(unit_P) for unit_P in self.clusterings]
        return Interval(min(each.low for each in found), max(each.high for each in found))

    def of(self, number: int, what: str) -> str:
        """`60 pairs in 20 worlds`, where `what` is `pairs`."""
        if self.over == "worlds":
            return f"{number} {what} in {self.worlds} worlds"
        tasks = f" of {counted(self.tasks, 'task')}" if self.shared else ""
        of_worlds = f" of {self.worlds} worlds" if self.worlds > 1 else ""
        return f"{number} {what}{tasks} in {counted(self.lanes, 'lane')}{of_worlds}"

    def name(self) -> str:
        """`20 worlds`, `20 lanes and 15 shared tasks`."""
        shared = f" and {self.tasks} shared tasks"
        names = {"lanes and tasks": f"{self.lanes} lanes{shared}", "tasks": f"{self.tasks} tasks"}
        return names.get(self.over, f"{self.worlds} worlds" if self.over == "worlds" else f"{self.lanes} lanes")

    def limit(self) -> str:
        """The units the result is limited to: `these 5 worlds only`; "" if it generalises to other worlds."""
        if self.over == "worlds":
            return ""
        if self.over == "tasks":
            return f"{'this lane' if self.lanes == 1 else f'these {self.lanes} lanes'} only"
        return f"{'this world' if self.worlds == 1 else f'these {self.worlds} worlds'} only"


def units(world_P: Codes, lane_P: Codes, task_P: Codes) -> Units:
    """The units of pairs. Lane and task codes must be unique across worlds."""
    worlds, lanes, tasks = (len(np.unique(each)) for each in (world_P, lane_P, task_P))
    shared = len(set(zip(lane_P.tolist(), task_P.tolist(), strict=True))) > tasks
    over = over_of(worlds, lanes, shared=shared)
    by_over: dict[Over, tuple[Codes, ...]] = {
        "worlds": (world_P,),
        "lanes": (lane_P,),
        "lanes and tasks": (lane_P, task_P),
        "tasks": (task_P,),
    }
    return Units(over, by_over[over], lane_P, task_P, worlds, lanes, tasks, shared)


def units_of(places: pd.DataFrame) -> Units:
    """The units of rows with `world`, `replicate`, `suite` and `task_id`. A lane is a (replicate, world) pair, shared
    by arms and weights; so is a task."""
    world, replicate, suite, task = (places[name].tolist() for name in ("world", "replicate", "suite", "task_id"))
    return units(
        encode(world),
        encode(list(zip(world, replicate, strict=True))),
        encode(list(zip(world, suite, task, strict=True))),
    )


PLACES = ["world", "replicate", "suite", "task_id"]
"""The columns of `load_episodes` that say which rows depend on each other."""


def rate_of(rows: pd.DataFrame, column: str = "success") -> Rate:
    """The rate of a column over the rows that have it, clustered by `units_of`. Without `PLACES` rows are independent,
    as in a simulated frame."""
    measured = rows[rows[column].notna()]
    success_P = measured[column].to_numpy(dtype=np.int64)
    if not len(success_P) or not set(PLACES) <= set(rows.columns):
        return Rate(int(success_P.sum()), len(success_P))
    return units_of(measured).rate(success_P)


def mcnemar(lost: int, gained: int) -> float:
    """The two-sided mid-p of McNemar's test (1947).

    Under the null, a changed pair is equally likely a loss or a gain. Half of the probability of the observed count is
    counted: the exact test errs far less often than its level says, the mid-p test about as often (Fagerland, Lydersen
    and Laake 2013, BMC Med. Res. Methodol. 13:91).
    """
    changed, fewer = lost + gained, min(lost, gained)
    if not changed:
        return 1.0
    if changed < _MANY:
        return _flipped(np.repeat([-1, 1], [lost, gained]))  # exact to the last digit
    from scipy.stats import binom

    seen = float(binom.pmf(fewer, changed, 0.5))
    return 2 * float(binom.cdf(fewer - 1, changed, 0.5)) + (seen / 2 if lost == gained else seen)


def sign_flip(change_P: Integers, unit_P: Codes) -> float:
    """The two-sided mid-p of the permutation test that swaps before and after within whole units.

    Under the null, the sum of a unit's changes is symmetric about zero. The p is the share of the 2^C sign flips that
    are more extreme than the observed sum, plus half of the share that is equally extreme (Winkler et al. 2014,
    NeuroImage 92:381; mid-p as in `mcnemar`, which it equals with one pair per unit). Sums are integers, so all flips
    are counted exactly, by convolution.
    """
    sums_C = np.bincount(unit_P, weights=change_P).astype(np.int64)
    if (np.abs(sums_C) <= 1).all():
        return mcnemar(int((sums_C < 0).sum()), int((sums_C > 0).sum()))
    return _flipped(sums_C)


def _flipped(sums_C: Integers) -> float:
    """The mid-p of the observed sum of `sums_C` among all flips of their signs; not all may be zero."""
    sizes, counts = np.unique(np.abs(sums_C[sums_C != 0]), return_counts=True)
    reach = int(sizes @ counts)
    ways: FloatArray = np.ones(1)  # the probability that the positive terms add up to 0, 1, ... reach
    for size, count in zip(sizes.tolist(), counts.tolist(), strict=True):
        ways = _add_flips(ways, size, count)
    seen = abs(int(sums_C.sum()))
    flipped = np.abs(2 * np.arange(reach + 1) - reach)
    return min(float(ways[flipped > seen].sum() + ways[flipped == seen].sum() / 2), 1.0)


def _add_flips(ways: FloatArray, size: int, count: int) -> FloatArray:
    """The distribution of the sum of positive terms with `count` further ones, each `size` or none with equal
    probability."""
    if count < _MANY:
        for _ in range(count):
            more = np.zeros(len(ways) + size)
            more[: len(ways)] = ways
            more[size:] += ways
            ways = more / 2
        return ways
    from scipy.stats import binom

    steps = np.zeros(size * count + 1)
    steps[::size] = binom.pmf(np.arange(count + 1), count, 0.5)
    found: FloatArray = np.convolve(ways, steps)
    return found


def clustered_error(value_P: Array, unit_P: Codes) -> float:
    """The cluster-robust standard error of the mean of `value_P`; NaN for a single unit.

    The sandwich estimator with the usual correction C / (C - 1) for few units.
    """
    residual_C = np.bincount(unit_P, weights=value_P - value_P.mean())
    number = len(residual_C)
    if number < 2:
        return math.nan
    return math.sqrt(number / (number - 1) * float(residual_C @ residual_C)) / len(value_P)


def intraclass_correlation(value_P: Array, unit_P: Codes) -> float:
    """The intraclass correlation of values in a unit, in [0, 1]: one-way ANOVA estimator.

    0 if no unit has two values or nothing varies.
    """
    sizes_C = np.bincount(unit_P).astype(np.float64)
    pairs, number = len(value_P), len(sizes_C)
    if number < 2 or pairs == number:
        return 0.0
    means_C = np.bincount(unit_P, weights=value_P) / sizes_C
    between = float(sizes_C @ (means_C - value_P.mean()) ** 2) / (number - 1)
    within = float(((value_P - means_C[unit_P]) ** 2).sum()) / (pairs - number)
    size = (pairs - float(sizes_C @ sizes_C) / pairs) / (number - 1)
    total = between + (size - 1) * within
    return min(max((between - within) / total, 0.0), 1.0) if total > 0 else 0.0


def change_interval(change_P: Integers, unit_P: Codes) -> Interval:
    """The 95 % interval of the mean change: every difference that the test does not reject.

    Units of one pair each are tested by the score test of Tango (1998, Stat. Med. 17:891), others by `sign_flip` after
    subtracting the difference from every change (see `invert`). 0 is in the interval exactly if the p of `sign_flip` is
    at least 0.05.
    """
    sums_C, sizes_C = (np.bincount(unit_P, weights=each_P).astype(np.float64) for each_P in (change_P, None))
    reach = max(int(np.abs(change_P).max(initial=1)), 1)
    within, zero = Interval(-reach, reach), sign_flip(change_P, unit_P) >= LEVEL
    if reach == 1 and len(sizes_C) == len(change_P):
        lost, gained = int((change_P < 0).sum()), int((change_P > 0).sum())
        score = partial(_tango, lost, gained, len(change_P))
        return _interval(lambda difference: score(difference) <= Z95, float(change_P.mean()), within, zero)
    return invert(sums_C, sizes_C, within, lambda difference: len(change_P) * integer_variance(difference), zero)


def _tango(lost: int, gained: int, pairs: int, difference: float) -> float:
    """The absolute score statistic of a difference of two paired rates; infinite if the difference is impossible."""
    b = (2 * pairs - gained + lost) * difference - gained - lost
    fewest = (math.sqrt(b * b + 8 * pairs * lost * difference * (1 - difference)) - b) / (4 * pairs)
    variance = pairs * (2 * fewest + difference * (1 - difference))
    surplus = abs(gained - lost - pairs * difference)
    if variance <= 0:
        return math.inf if surplus > 0 else 0.0
    return surplus / math.sqrt(variance)


def invert(
    sums_C: FloatArray, sizes_C: FloatArray, within: Interval, least_variance: Callable[[float], float], zero: bool
) -> Interval:
    """All values v for which the sums `sums_C` - v `sizes_C` of independent units may be symmetric about zero.

    A value is rejected if its sign-flip mid-p is below 0.05, and its score statistic too is beyond the normal limit,
    with the least variance that outcomes with this mean can have. Without the second condition the interval would have
    no width where all units agree. `zero` states whether 0 is in the interval, by the exact test. The sum of `sizes_C`
    must be positive.
    """
    total, size = float(sums_C.sum()), float(sizes_C.sum())

    def is_possible(value: float) -> bool:
        if (total - value * size) ** 2 <= Z95**2 * least_variance(value):
            return True
        shifted_C = sums_C - value * sizes_C
        if len(shifted_C) > _MANY_UNITS:
            return float(shifted_C.sum()) ** 2 <= Z95**2 * float(shifted_C @ shifted_C)
        span = float(np.abs(shifted_C).sum())
        return span == 0 or _flipped(np.round(shifted_C * (_GRID / span)).astype(np.int64)) >= LEVEL

    return _interval(is_possible, total / size, within, zero)


def _interval(is_possible: Callable[[float], bool], estimate: float, within: Interval, zero: bool) -> Interval:
    """The possible values around the estimate, by bisection; 0 is one of them exactly if `zero`."""
    estimate = min(max(estimate, within.low), within.high)

    def end(outside: float) -> float:
        inside = estimate
        if is_possible(outside):
            return outside
        for _ in range(_HALVINGS):
            middle = (inside + outside) / 2
            inside, outside = (middle, outside) if is_possible(middle) else (inside, middle)
        return inside

    low, high = end(within.low), end(within.high)
    if zero:
        return Interval(min(low, 0.0), max(high, 0.0))
    # Tests of zero and of values close to it may differ slightly.
    return Interval(max(low, JUST_ABOVE), high) if estimate > 0 else Interval(low, min(high, -JUST_ABOVE))


def integer_variance(mean: float) -> float:
    """The least variance of a whole number with this mean."""
    part = mean - math.floor(mean)
    return part * (1 - part)
