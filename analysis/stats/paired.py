"""Tests and intervals for a mean paired change that stay valid if pairs are dependent.

A change is the outcome after minus the outcome before. Pairs are dependent: those of a lane share a library, lanes of a
world share its rules, replicates often share tasks, and samples share one task. Independent *units* are defined by
`Units`. Array names end in their axes: P pairs, C units.
"""

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from hermes_lab.analysis.curves import Array
from hermes_lab.analysis.stats.intervals import Interval, paired_difference
from hermes_lab.analysis.stats.over_lanes import mean_over_lanes

MIN_LANES = 6
"""Fewest lanes, or worlds, to be used as units: with 5 there are 32 sign flips, two of them extreme, so p < 0.05 is
impossible."""

Codes = npt.NDArray[np.intp]


def encode(labels: Sequence[Hashable]) -> Codes:
    """Labels as integers from 0, in order of first appearance."""
    places: dict[Hashable, int] = {}
    return np.array([places.setdefault(label, len(places)) for label in labels], dtype=np.intp)


Over = Literal["worlds", "lanes", "lanes and tasks", "tasks"]


class Units(NamedTuple):
    """The clustering of pairs: by world with at least `MIN_LANES` worlds; else by lane with as many lanes; else by
    task.

    If lanes are the units and share tasks, pairs of one task are dependent too. Then both clusterings are used
    (`clusterings`: the unit of each pair), and the larger p and the wider interval count. `over` names the clustering;
    `worlds`, `lanes` and `tasks` are counts.
    """

    over: Over
    clusterings: tuple[Codes, ...]
    lane_P: Codes
    worlds: int
    lanes: int
    tasks: int
    shared: bool
    """Whether lanes share tasks."""

    def p_value(self, change_P: npt.NDArray[np.int64]) -> float:
        """The largest p of `sign_flip`."""
        return max(sign_flip(change_P, unit_P) for unit_P in self.clusterings)

    def interval(self, before_P: npt.NDArray[np.bool_], after_P: npt.NDArray[np.bool_]) -> Interval:
        """The union of the `change_interval`s."""
        return self.widest(lambda unit_P: change_interval(before_P, after_P, unit_P))

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
        tasks = f" of {self.tasks} task{'s' * (self.tasks > 1)}" if self.shared else ""
        of_worlds = f" of {self.worlds} worlds" if self.worlds > 1 else ""
        return f"{number} {what}{tasks} in {self.lanes} lane{'s' * (self.lanes > 1)}{of_worlds}"

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
    over: Over = "worlds"
    clusterings: tuple[Codes, ...] = (world_P,)
    if worlds < MIN_LANES:
        over, clusterings = ("lanes", (lane_P,)) if lanes >= MIN_LANES else ("tasks", (task_P,))
    if over == "lanes" and shared:
        over, clusterings = "lanes and tasks", (lane_P, task_P)
    return Units(over, clusterings, lane_P, worlds, lanes, tasks, shared)


def units_of(places: pd.DataFrame) -> Units:
    """The units of rows with `world`, `replicate`, `suite` and `task_id`. A lane is a (replicate, world) pair, shared
    by arms and weights; so is a task."""
    world, replicate, suite, task = (places[name].tolist() for name in ("world", "replicate", "suite", "task_id"))
    return units(
        encode(world),
        encode(list(zip(world, replicate, strict=True))),
        encode(list(zip(world, suite, task, strict=True))),
    )


def mcnemar(lost: int, gained: int) -> float:
    """The exact two-sided p of McNemar's test (1947).

    Under the null, a changed pair is equally likely a loss or a gain.
    """
    from scipy.stats import binomtest

    return float(binomtest(gained, lost + gained).pvalue) if lost + gained else 1.0


def sign_flip(change_P: npt.NDArray[np.int64], unit_P: Codes) -> float:
    """The exact two-sided p of the permutation test that swaps before and after within whole units.

    Under the null, the sum of a unit's changes is symmetric about zero. The p is the share of all 2^C sign flips that
    are at least as extreme as the observed sum (Winkler et al. 2014, NeuroImage 92:381). Sums are integers, so all
    flips are counted exactly, by convolution. With one pair per unit it equals `mcnemar`.
    """
    sums_C = np.bincount(unit_P, weights=change_P).astype(np.int64)
    sizes = np.abs(sums_C[sums_C != 0])
    if (sizes == 1).all():
        return mcnemar(int((sums_C < 0).sum()), int((sums_C > 0).sum()))
    reach = int(sizes.sum())
    ways = np.zeros(2 * reach + 1)  # the probability of each sum from -reach to reach
    ways[reach] = 1.0
    for size in sizes:
        ways = (np.roll(ways, size) + np.roll(ways, -size)) / 2
    seen = abs(int(sums_C.sum()))
    return min(float(ways[np.abs(np.arange(-reach, reach + 1)) >= seen].sum()), 1.0)


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


def change_interval(before_P: npt.NDArray[np.bool_], after_P: npt.NDArray[np.bool_], unit_P: Codes) -> Interval:
    """The 95 % interval of the mean change: Newcombe's paired interval, but no narrower than the bootstrap over units
    if units have several pairs.

    If all units agree the bootstrap has zero width, and the score interval ignores units; so the wider end of both
    counts.
    """
    both, lost = int((before_P & after_P).sum()), int((before_P & ~after_P).sum())
    gained = int((~before_P & after_P).sum())
    interval = paired_difference(both, lost, gained, len(before_P) - both - lost - gained)
    return widened(interval, after_P.astype(np.float64) - before_P, unit_P)


def widened(interval: Interval, value_P: Array, unit_P: Codes) -> Interval:
    """`interval`, widened to the bootstrap over units of the mean of `value_P` if units have several pairs."""
    if unit_P.max() + 1 == len(unit_P):
        return interval
    over = mean_over_lanes(value_P.tolist(), unit_P.tolist()).interval
    return Interval(min(interval.low, over.low), max(interval.high, over.high)) if over else interval
