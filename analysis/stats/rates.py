"""Rates over rows that depend on each other, such as samples of one task or episodes of one world.

Needs neither numpy nor pandas, so that a summary starts quickly.
"""

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import Literal, NamedTuple

from hermes_lab.analysis.stats.intervals import Z95, Interval, Rate, wilson

MIN_UNITS = 6
"""Fewest lanes, or worlds, to be used as units: fewer say too little about how they vary."""

_LEAST_FREEDOM = 3
"""Degrees of freedom if the rarer outcome is in fewer units, and there are more: with fewer, one failure in hundreds of
episodes would make the interval as wide as that of the units alone."""

Over = Literal["worlds", "lanes", "lanes and tasks", "tasks"]


class Place(NamedTuple):
    """Where a row stands. A lane is a replicate of a world; a task belongs to its world, and lanes may share it."""

    world: Hashable
    lane: Hashable
    task: Hashable


def over_of(worlds: int, lanes: int, *, shared: bool) -> Over:
    """What depends on each other: rows of a world with `MIN_UNITS` worlds; else of a lane with as many lanes, and of a
    task if lanes share tasks; else of a task."""
    if worlds >= MIN_UNITS:
        return "worlds"
    if lanes < MIN_UNITS:
        return "tasks"
    return "lanes and tasks" if shared else "lanes"


def rate_over(outcomes: Sequence[bool], places: Sequence[Place]) -> Rate:
    """The rate of the outcomes, with one place each, clustered as `over_of` says; by the worse of two clusterings.

    If all outcomes are the same, nothing tells how alike those of a world are: then the tasks count.
    """
    worlds, lanes, tasks = (set(column) for column in zip(*places, strict=True)) if places else (set(), set(), set())
    shared = len({(place.lane, place.task) for place in places}) > len(tasks)
    over = over_of(len(worlds), len(lanes), shared=shared)
    by_over: dict[Over, tuple[list[Hashable], ...]] = {
        "worlds": ([place.world for place in places],),
        "lanes": ([place.lane for place in places],),
        "lanes and tasks": ([place.lane for place in places], [place.task for place in places]),
        "tasks": ([place.task for place in places],),
    }
    if len(set(outcomes)) < 2:
        over = "tasks"
    return clustered(_by_unit(outcomes, labels) for labels in by_over[over])


def clustered(clusterings: Iterable[Sequence[tuple[int, int]]]) -> Rate:
    """The rate of the same outcomes in one or more clusterings, each as units of (successes, trials); the fewest
    effective trials count."""
    found = [(effective_trials(units), units) for units in clusterings]
    effective, units = min(found, key=lambda each: each[0])
    successes, trials = (sum(column) for column in zip(*units, strict=True)) if units else (0, 0)
    return Rate(successes, trials, effective if effective < trials else None)


def effective_trials(units: Sequence[tuple[int, int]]) -> float:
    """The number of independent trials that say as much about the rate as these units of (successes, trials).

    p (1 - p) over the jackknife variance of the rate between units, so that Wilson's interval over them is as wide as
    the units vary; Student's quantile allows for few units, of which those with the rarer outcome count (Korn and
    Graubard 1998, Surv. Methodol. 24:193, with Wilson's interval as in Dean and Pagano 2015, J. Surv. Stat. Methodol.
    3:484). At most the number of trials, and at least the number of units (of equal size): both if no unit has two
    trials. Where every unit is alike inside, such as one whose samples are copies, there are as many as units.
    """
    trials = sum(number for _, number in units)
    if trials == 0 or all(number == 1 for _, number in units):
        return float(trials)
    fewest = trials**2 / sum(number**2 for _, number in units)
    if len(units) < 2 or all(successes in (0, number) for successes, number in units):
        return fewest
    rate = sum(successes for successes, _ in units) / trials
    mixed = min(sum(successes > 0 for successes, _ in units), sum(successes < number for successes, number in units))
    away = [(successes - rate * number) / (1 - number / trials) for successes, number in units]
    variance = (len(units) - 1) / len(units) * math.fsum(each**2 for each in away) / trials**2
    freedom = min(max(mixed, _LEAST_FREEDOM), fewest - 1)
    if variance == 0 or freedom <= 0:
        return fewest if freedom <= 0 else float(trials)
    found = rate * (1 - rate) / variance * (Z95 / _student(freedom)) ** 2
    return min(max(found, fewest), float(trials))


def mean_interval(values: Sequence[float], samples: int) -> Interval:
    """The 95 % interval of the mean of values in [0, 1], one of each task, from `samples` samples in all.

    Wilson's over p (1 - p) / variance trials, with Student's quantile: at least one for each task, since no values in
    [0, 1] with this mean vary more than successes and failures, and at most one for each sample.
    """
    if len(values) < 2:
        return wilson(math.fsum(values), len(values))
    mean = math.fsum(values) / len(values)
    variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values)
    trials = mean * (1 - mean) / variance * (Z95 / _student(len(values) - 1)) ** 2 if variance else float(samples)
    return wilson(math.fsum(values), len(values), min(max(trials, len(values)), samples))


def pass_at(k: int, solved: int, samples: int) -> float:
    """The chance that of k samples at least one is right: 1 - C(n - c, k) / C(n, k), unbiased (Chen et al. 2021,
    arXiv:2107.03374), for 1 <= k <= n."""
    return 1 - math.comb(samples - solved, k) / math.comb(samples, k)


def pass_all(k: int, solved: int, samples: int) -> float:
    """pass^k, the chance that k samples are all right: C(c, k) / C(n, k) (Yao et al. 2024, arXiv:2406.12045)."""
    return math.comb(solved, k) / math.comb(samples, k)


def _by_unit(outcomes: Sequence[bool], labels: Sequence[Hashable]) -> list[tuple[int, int]]:
    trials = Counter(labels)
    successes = Counter(label for label, outcome in zip(labels, outcomes, strict=True) if outcome)
    return [(successes[label], number) for label, number in trials.items()]


def _student(freedom: float) -> float:
    """Student's t quantile of a two-sided 95 % interval."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.975))
