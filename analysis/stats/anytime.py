"""A test of a mean paired change that may be looked at after every unit, and the interval that it implies.

The null is that of `paired.sign_flip`: the sum of a unit's changes is equally likely in either direction. Then

    exp(b s) / cosh(b s)

of a sum s has mean 1 for every bet b, and so has the product over units, averaged over bets. Under the null such a
product reaches 1 / alpha at any time with a probability of at most alpha (Ville 1939). Koning (2023, arXiv:2310.01153)
derives these e-values for groups of symmetries, of which sign flips are one; Ramdas, Grünwald, Vovk and Shafer (2023,
Stat. Sci. 38:576) review tests that are valid at any time. A unit multiplies the evidence by 2 at most, so nothing is
shown before the sixth. Array names end in their axes: B bets, C units, V values.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hermes_lab.analysis.stats.intervals import Interval
from hermes_lab.analysis.stats.paired import LEVEL, FloatArray, integer_variance
from hermes_lab.analysis.stats.power import ALPHA, CORRELATION, Lanes, drawn_sums, pair_rates

ENOUGH = 1 / LEVEL
"""The evidence at which a difference is shown."""
EARLIEST = 6
"""The fewest units that can show one: the two directions share the evidence, so it is at most 2^units / 2."""
_BETS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Multiples of the bet that is best if the effect and the variance are as planned."""
_LEAST_EFFECT = 0.05
"""Bets are at least those for an effect of this size."""
_GRID = 200
"""Values tried between 0 and 1; the ends of the interval are then found by bisection."""
_HALVINGS = 12
_DRAWS = 1000


class Look(NamedTuple):
    """The result after some units. `evidence` is the most that any look so far has had."""

    units: int
    evidence: float
    difference: float
    interval: Interval

    @property
    def shown(self) -> bool:
        """Whether a difference is shown, now or at an earlier look."""
        return self.evidence >= ENOUGH

    @property
    def p_value(self) -> float:
        """A p that is valid at any time."""
        return min(1.0, 1 / self.evidence)


def bets_for(baseline: float, effect: float) -> FloatArray:
    """The bets, shape (B,), for a plan: the expected change of a pair over its variance, and multiples of it.

    The bets decide how soon an effect is shown; the test is valid with any. Rates and effect are fractions.
    """
    rates = pair_rates(baseline, effect, CORRELATION)
    variance = rates.gained + rates.lost - (rates.gained - rates.lost) ** 2
    return np.array(_BETS) * max(abs(effect), _LEAST_EFFECT) / max(variance, _LEAST_EFFECT)


def log_evidence(sums_C: npt.ArrayLike, bets_B: FloatArray, *, direction: int = 0) -> FloatArray:
    """The logarithm of the evidence after each unit, along the last axis of `sums_C`: that a unit's sum is not
    symmetric about zero.

    `direction` is 1 or -1 for evidence of positive or negative sums alone.
    """
    sums = np.asarray(sums_C, dtype=np.float64)
    signed = np.concatenate([bets_B, -bets_B]) if direction == 0 else direction * bets_B
    logs = [np.cumsum(bet * sums - np.logaddexp(bet * sums, -bet * sums) + math.log(2), axis=-1) for bet in signed]
    whole: FloatArray = np.logaddexp.reduce(logs, axis=0) - math.log(len(signed))
    return whole


def look(sums_C: FloatArray, sizes_C: FloatArray, bets_B: FloatArray) -> Look:
    """The result after these units, each with the sum of its changes and the number of its pairs. At least one."""
    evidence = math.exp(min(float(np.maximum.accumulate(log_evidence(sums_C, bets_B))[-1]), 700.0))
    difference = float(sums_C.sum() / sizes_C.sum())
    return Look(len(sums_C), max(evidence, math.exp(-700)), difference, _interval(sums_C, sizes_C, bets_B, difference))


def excludes(sums_C: FloatArray, sizes_C: FloatArray, bets_B: FloatArray, effect: float) -> FloatArray:
    """The logarithm of the evidence, after each unit, that the mean change falls short of `effect`."""
    return log_evidence(sums_C - effect * sizes_C, bets_B, direction=-1 if effect > 0 else 1)


def _interval(sums_C: FloatArray, sizes_C: FloatArray, bets_B: FloatArray, estimate: float) -> Interval:
    """The differences that no look has rejected: a 95 % confidence sequence.

    As in `paired.invert`, a difference is subtracted from every change. It is rejected only if it is also too far away
    for independent outcomes with the least possible variance, at any time (Robbins 1970, Ann. Math. Stat. 41:1397);
    otherwise the interval would have no width where all units agree. Zero is outside exactly if the evidence is enough.
    """
    reach_C, pairs_C = np.cumsum(sums_C), np.cumsum(sizes_C)

    def rejected(values_V: FloatArray) -> npt.NDArray[np.bool_]:
        shifted_V_C = sums_C - values_V[:, None] * sizes_C
        least_V = np.array([integer_variance(value) for value in values_V.tolist()])
        far_V_C = (reach_C - values_V[:, None] * pairs_C) ** 2 > (
            least_V[:, None] * pairs_C * (np.log(pairs_C + 1) + 2 * math.log(ENOUGH))
        )
        enough_V_C = log_evidence(shifted_V_C, bets_B) >= math.log(ENOUGH)
        return np.asarray(np.any(enough_V_C & far_V_C, axis=1))

    reach = max(math.ceil(float(np.max(np.abs(sums_C) / sizes_C))), 1)
    values = np.arange(-_GRID * reach, _GRID * reach + 1) / _GRID
    possible = values[~rejected(values)]
    zero = not bool(rejected(np.zeros(1))[0])
    if not zero:
        possible = possible[possible * estimate > 0]
    if not possible.size:  # the looks contradict each other, or the interval is narrower than a step
        return Interval(estimate, estimate)

    def end(inside: float, outside: float) -> float:
        if abs(outside) > reach:
            return inside
        for _ in range(_HALVINGS):
            middle = (inside + outside) / 2
            inside, outside = (inside, middle) if rejected(np.array([middle]))[0] else (middle, outside)
        return inside

    step = 1 / _GRID
    low, high = float(possible[0]), float(possible[-1])
    return Interval(end(low, low - step), end(high, high + step))


class SequentialPower(NamedTuple):
    """The probability that a difference is shown by the last unit, and the mean number of units until then."""

    power: float
    units: float


def sequential_power(pairs: int, baseline: float, effect: float, lanes: Lanes, *, truth: float) -> SequentialPower:
    """Simulates `lanes.number` units that are looked at one by one, with bets for `effect`, if the effect is `truth`.

    `pairs` counts those of all units. Over 1,000 draws: the standard error of a power of 0.5 is 0.016.
    """
    sums_B_C = drawn_sums(pairs, pair_rates(baseline, truth, CORRELATION), lanes, _DRAWS)
    hit_B_C = log_evidence(sums_B_C, bets_for(baseline, effect)) >= math.log(1 / ALPHA)
    any_B = hit_B_C.any(axis=1)
    ended_B = np.where(any_B, hit_B_C.argmax(axis=1) + 1, lanes.number)
    return SequentialPower(float(any_B.mean()), float(ended_B.mean()))


def units_needed(pairs: int, baseline: float, effect: float, start: int, *, power: float = 0.8) -> int | None:
    """The fewest units of `pairs` pairs each with that power; None if 10 times `start` are too few."""
    most = 10 * start
    sums_B_C = drawn_sums(most * pairs, pair_rates(baseline, effect, CORRELATION), Lanes(most), _DRAWS)
    hit_B_C = log_evidence(sums_B_C, bets_for(baseline, effect)) >= math.log(1 / ALPHA)
    shown_C = np.maximum.accumulate(hit_B_C, axis=1).mean(axis=0)
    return int(np.argmax(shown_C >= power)) + 1 if shown_C[-1] >= power else None
