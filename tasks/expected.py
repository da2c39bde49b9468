"""The calibration weight: what the calibrated learner's success rate must be, in closed form.

A task is about a set S of places, drawn by the world's shares q without replacement. At each of them the learner acts
on what it believes, and the task succeeds where all of that is right. With probability s (slip) it goes the naive way
everywhere and learns nothing. Else whatever it was wrong about is told, and captured with probability c, each by
itself; a place about which it is right teaches nothing, so a coin that is thrown there all the same changes nothing.
So the first good coin of a place decides, and for any set A of places

    m(A) = s + (1 - s) E_S[(1 - c)^|S & A|]        no coin of A is good in one task
    m(A)^n                                         nor in any of n tasks, which are independent

With one place a task and no drift this gives the law of the suites, where R are the places that have a rule:

    E[success(n)] = sum_{j not in R} q_j + (1 - s) sum_{j in R} q_j (1 - (1 - c (1 - s) q_j)^n)

and in a uniform world of D places exactly a - (a - i) exp(-r n), with i = P/D, a = i + (1 - s) M/D and
r = -ln(1 - c (1 - s) / D). Of several places all must be right: inclusion and exclusion over the wrong ones gives that
from m(A). At a drift the count begins anew for whatever became wrong there, and what was captured before it matters in
one way: as what is believed now.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache
from itertools import chain, combinations, permutations
from typing import NamedTuple

from hermes_lab.tasks.worlds import WorldSpec

Places = frozenset[int]
Epoch = tuple[str, ...]
"""What is true at each place: the name of a rule, or "" where the obvious way is right."""


class _Place(NamedTuple):
    """Whether the learner is right at the task's time although it captured nothing in the task's own epoch: where it
    had captured something before the drift, and where it had not."""

    captured: bool
    fresh: bool


def expected_success(
    n: int,
    spec: WorldSpec,
    capture: float = 1.0,
    slip: float = 0.0,
    *,
    number: int | None = None,
    known: Collection[int] = (),
) -> float:
    """The probability that `learner` does a task right at the first try.

    `n` tasks are in its library's past; the task itself has this `number` (n, unless rounds are larger than one task).
    `known` are the places, in the order of `WorldSpec.shares`, whose drawn rule a library told from the beginning,
    whether it is in force or not. Skills off is `capture` 0. `spec.discovery` costs attempts and no more; with salience
    `symptom` nothing is ever told, so nothing is captured.
    """
    capture = 0.0 if spec.salience == "symptom" else capture
    number = n if number is None else number
    first, second = epochs(spec)
    begin = tuple("drawn" if site in known else "" for site in range(spec.sites))
    if not spec.drift_at or number < spec.drift_at:
        before, after, truth = 0, n, first
        sites = [_Place(begin[j] == truth[j], begin[j] == truth[j]) for j in range(spec.sites)]
    else:
        before, after, truth = min(n, spec.drift_at), max(0, n - spec.drift_at), second
        sites = [_Place(first[j] == truth[j], begin[j] == truth[j]) for j in range(spec.sites)]
    total = 0.0
    for chosen, probability in task_sets(spec).items():
        naive = all(not truth[j] for j in chosen)
        right = _all_right(chosen, sites, before, after, lambda a: _missed(spec, capture, slip, a))
        total += probability * (slip * naive + (1 - slip) * right)
    return total


def epochs(spec: WorldSpec) -> tuple[Epoch, Epoch]:
    """What is true at each place before the drift, and after it."""
    ruled = [(site < spec.ruled) != spec.decoy for site in range(spec.sites)]
    first = tuple("drawn" if each else "" for each in ruled)
    if spec.drift == "invert":
        return first, tuple("" if each else "drawn" for each in ruled)
    return first, tuple("redrawn" if each else "" for each in ruled)


@lru_cache(maxsize=64)
def task_sets(spec: WorldSpec) -> dict[Places, float]:
    """The probability that a task is about each set of places, by going through every order of drawing them."""
    found: dict[Places, float] = {}
    for drawn in permutations(range(spec.sites), spec.pieces):
        probability, left = 1.0, 1.0
        for site in drawn:
            probability *= spec.shares[site] / left
            left -= spec.shares[site]
        found[frozenset(drawn)] = found.get(frozenset(drawn), 0.0) + probability
    return found


@lru_cache(maxsize=100_000)
def _missed(spec: WorldSpec, capture: float, slip: float, sites: Places) -> float:
    """m(A): the probability that one task captures nothing about any of these places."""
    lost = sum(p * (1 - capture) ** len(chosen & sites) for chosen, p in task_sets(spec).items())
    return slip + (1 - slip) * lost


def _all_right(
    chosen: Places, sites: Sequence[_Place], before: int, after: int, missed: Callable[[Places], float]
) -> float:
    """The probability that all of `chosen` are right after so many tasks `before` and `after` the drift."""
    return sum((-1.0) ** len(wrong) * _all_wrong(wrong, sites, before, after, missed) for wrong in _subsets(chosen))


def _all_wrong(
    wrong: Places, sites: Sequence[_Place], before: int, after: int, missed: Callable[[Places], float]
) -> float:
    """The probability that all of `wrong` are: none was captured after the drift; before it, those were not that would
    be right by that, and those were that would be right without."""
    if any(sites[j].captured and sites[j].fresh for j in wrong):
        return 0.0
    uncaptured = frozenset(j for j in wrong if sites[j].captured)
    captured = frozenset(j for j in wrong if sites[j].fresh)
    earlier = sum((-1.0) ** len(more) * missed(uncaptured | more) ** before for more in _subsets(captured))
    return earlier * missed(wrong) ** after


def _subsets(sites: Places) -> Iterator[Places]:
    sizes = (combinations(sorted(sites), size) for size in range(len(sites) + 1))
    return map(frozenset, chain.from_iterable(sizes))
