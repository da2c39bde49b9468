"""The expected success rate of the calibrated learner, in closed form.

A task involves a set S of sites, drawn without replacement with the world's shares q. At each site the learner follows
the rule it knows, and the task succeeds if that is right at all of them. With probability s (slip) the learner uses the
naive solution everywhere and learns nothing. Otherwise it is told every rule that it got wrong, and captures each
independently with probability c. A site that it got right teaches nothing, so an extra draw there makes no difference:
a site is learned at its first successful draw. For any set A of sites

    m(A) = s + (1 - s) E_S[(1 - c)^|S & A|]        one task captures nothing about A
    m(A)^n                                         n independent tasks capture nothing about A

With one site per task and no drift, this gives the learning curve, where R is the set of sites that have a rule:

    E[success(n)] = sum_{j not in R} q_j + (1 - s) sum_{j in R} q_j (1 - (1 - c (1 - s) q_j)^n)

In a uniform world of D sites that is exactly a - (a - i) exp(-r n), with i = P/D, a = i + (1 - s) M/D and
r = -ln(1 - c (1 - s) / D). With several sites per task all must be right; that probability follows from m(A) by
inclusion-exclusion over the wrong ones. At a drift the count restarts for every site that becomes wrong; earlier
captures only matter as what the learner believes at the drift.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache
from itertools import chain, combinations, permutations
from typing import NamedTuple

from hermes_lab.tasks.worlds import WorldSpec

Sites = frozenset[int]
Epoch = tuple[str, ...]
"""The rule in force at each site, or "" if the naive solution is right."""


class _SiteState(NamedTuple):
    """Whether the learner is right at a site if it captured nothing there in the task's epoch: given that it captured
    something before the drift (`captured`), and that it did not (`fresh`)."""

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
    """The probability that the first submission of `learner` is right.

    The learner's library was frozen after `n` tasks; `number` is the number of the task itself (by default n; it is
    larger if rounds have several tasks). `known` are the sites, in the order of `WorldSpec.shares`, whose drawn rule
    the initial library states, in force or not. For an arm without skills, use `capture` 0. `spec.discovery` only costs
    attempts; with salience `symptom` rejections state no rules, so nothing is captured.
    """
    capture = 0.0 if spec.salience == "symptom" else capture
    number = n if number is None else number
    first, second = epochs(spec)
    begin = tuple("drawn" if site in known else "" for site in range(spec.sites))
    if not spec.drift_at or number < spec.drift_at:
        before, after, truth = 0, n, first
        sites = [_SiteState(begin[j] == truth[j], begin[j] == truth[j]) for j in range(spec.sites)]
    else:
        before, after, truth = min(n, spec.drift_at), max(0, n - spec.drift_at), second
        sites = [_SiteState(first[j] == truth[j], begin[j] == truth[j]) for j in range(spec.sites)]
    total = 0.0
    for chosen, probability in task_sets(spec).items():
        naive = all(not truth[j] for j in chosen)
        right = _all_right(chosen, sites, before, after, lambda a: _missed(spec, capture, slip, a))
        total += probability * (slip * naive + (1 - slip) * right)
    return total


def epochs(spec: WorldSpec) -> tuple[Epoch, Epoch]:
    """The rules in force before and after the drift."""
    ruled = [(site < spec.ruled) != spec.decoy for site in range(spec.sites)]
    first = tuple("drawn" if each else "" for each in ruled)
    if spec.drift == "invert":
        return first, tuple("" if each else "drawn" for each in ruled)
    return first, tuple("redrawn" if each else "" for each in ruled)


@lru_cache(maxsize=64)
def task_sets(spec: WorldSpec) -> dict[Sites, float]:
    """The probability of each set of sites in a task, summed over all orders of drawing them."""
    found: dict[Sites, float] = {}
    for drawn in permutations(range(spec.sites), spec.pieces):
        probability, left = 1.0, 1.0
        for site in drawn:
            probability *= spec.shares[site] / left
            left -= spec.shares[site]
        found[frozenset(drawn)] = found.get(frozenset(drawn), 0.0) + probability
    return found


@lru_cache(maxsize=100_000)
def _missed(spec: WorldSpec, capture: float, slip: float, sites: Sites) -> float:
    """m(A): the probability that one task captures nothing about any of these sites."""
    lost = sum(p * (1 - capture) ** len(chosen & sites) for chosen, p in task_sets(spec).items())
    return slip + (1 - slip) * lost


def _all_right(
    chosen: Sites, sites: Sequence[_SiteState], before: int, after: int, missed: Callable[[Sites], float]
) -> float:
    """The probability that all of `chosen` are right, given the numbers of tasks `before` and `after` the drift."""
    return sum((-1.0) ** len(wrong) * _all_wrong(wrong, sites, before, after, missed) for wrong in _subsets(chosen))


def _all_wrong(
    wrong: Sites, sites: Sequence[_SiteState], before: int, after: int, missed: Callable[[Sites], float]
) -> float:
    """The probability that all of `wrong` are wrong.

    Then none of them was captured after the drift. Before it, those that a capture would make right were not captured,
    and those that are right without a capture were captured.
    """
    if any(sites[j].captured and sites[j].fresh for j in wrong):
        return 0.0
    uncaptured = frozenset(j for j in wrong if sites[j].captured)
    captured = frozenset(j for j in wrong if sites[j].fresh)
    earlier = sum((-1.0) ** len(more) * missed(uncaptured | more) ** before for more in _subsets(captured))
    return earlier * missed(wrong) ** after


def _subsets(sites: Sites) -> Iterator[Sites]:
    sizes = (combinations(sorted(sites), size) for size in range(len(sites) + 1))
    return map(frozenset, chain.from_iterable(sizes))
