"""A test of a mean paired change that may be looked at after every unit, and the interval beside it.

**Test.** The null is that of `paired.sign_flip`: the sum of a unit's changes is equally likely in either direction, as
if there were no difference in any unit. Then

    exp(b s) / cosh(b s) = 1 + tanh(b s)

of a sum s has mean 1 for every bet b, and so has the product over units, averaged over bets. Under the null such a
product reaches 1 / alpha at any time with a probability of at most alpha (Ville 1939). Koning (2023, arXiv:2310.01153)
derives such e-values for groups of symmetries, of which sign flips are one. A unit multiplies the evidence by 2 at
most, which both directions share: nothing is shown before the sixth.

**Interval.** As in `paired.invert`, a difference is subtracted from every change: the interval holds those that are
not rejected. Where effects differ between units, what remains is skewed, to which large bets are sensitive: the largest
is left out. Zero is outside exactly if the test shows a difference. Array names end in their axes: K bets, B draws, C
units.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hermes_lab.analysis.stats.intervals import Interval
from hermes_lab.analysis.stats.paired import JUST_ABOVE, LEVEL, FloatArray, integer_variance
from hermes_lab.analysis.stats.power import CORRELATION, Lanes, PairRates, drawn_sums, pair_rates

ENOUGH = 1 / LEVEL
"""The evidence at which a difference is shown."""
_LOG_ENOUGH = math.log(ENOUGH)
_BETS = (0.25, 0.5, 1.0)
"""Shares of the bet that is best if the effect and the variance are as planned. Larger ones would hardly do more than
count the units that changed in each direction."""
_LEAST_EFFECT = 0.05
"""Bets are at least those for an effect of this size."""
_HALVINGS = 12
"""An end of an interval is exact to 2^-12 of the range."""
_DRAWS = 1000


class Look(NamedTuple):
    """The result after some units; `difference` is the mean change of a pair."""

    units: int
    evidence: float
    difference: float
    interval: Interval

    @property
    def shown(self) -> bool:
        """Whether a difference is shown."""
        return self.evidence >= ENOUGH

    @property
    def p_value(self) -> float:
        """A p that is valid at any time."""
        return min(1.0, 1 / self.evidence)

    def reversed(self) -> "Look":
        """The same for before minus after."""
        low, high = self.interval
        return self._replace(difference=-self.difference, interval=Interval(-high, -low))


def bets_for(baseline: float, effect: float) -> FloatArray:
    """The bets, shape (K,), for a plan: the expected change of a pair over its variance, and shares of it.

    The bets decide how soon an effect is shown; the test is valid with any. Rates and effect are fractions.
    """
    rates = pair_rates(baseline, effect, CORRELATION)
    variance = rates.gained + rates.lost - (rates.gained - rates.lost) ** 2
    return np.array(_BETS) * max(abs(effect), _LEAST_EFFECT) / max(variance, _LEAST_EFFECT)


def log_evidence(sums_C: npt.ArrayLike, bets_K: FloatArray) -> FloatArray:
    """The logarithm of the evidence that units' sums are not symmetric about zero, after each unit: along the last axis
    of `sums_C`."""
    sums = np.asarray(sums_C, dtype=np.float64)
    signed = np.concatenate([bets_K, -bets_K])
    logs = [np.cumsum(bet * sums - np.logaddexp(bet * sums, -bet * sums) + math.log(2), axis=-1) for bet in signed]
    return np.asarray(np.logaddexp.reduce(logs, axis=0) - math.log(len(signed)))


def look(sums_C: FloatArray, sizes_C: FloatArray, bets_K: FloatArray) -> Look:
    """The result after these units, each with the sum of its changes and the number of its pairs. At least one."""
    difference = float(sums_C.sum() / sizes_C.sum())
    log = float(log_evidence(sums_C, bets_K)[-1])
    evidence = math.exp(min(max(log, -700.0), 700.0))
    low, high = _interval(sums_C, sizes_C, bets_K, difference)
    if evidence < ENOUGH:
        return Look(len(sums_C), evidence, difference, Interval(min(low, 0.0), max(high, 0.0)))
    apart = Interval(max(low, JUST_ABOVE), high) if difference > 0 else Interval(low, min(high, -JUST_ABOVE))
    return Look(len(sums_C), evidence, difference, apart)


def rejected(sums_C: FloatArray, sizes_C: FloatArray, bets_K: FloatArray, value: float) -> npt.NDArray[np.bool_]:
    """Whether the interval after each unit leaves out a value, along the last axis of `sums_C`.

    It does so only if the value is also too far away for independent outcomes with the least possible variance, at any
    time (Robbins 1970, Ann. Math. Stat. 41:1397); otherwise the interval would have no width where all units agree.
    """
    total_C, pairs_C = np.cumsum(sums_C, axis=-1), np.cumsum(sizes_C)
    farthest_C = integer_variance(value) * pairs_C * (np.log(pairs_C + 1) + 2 * _LOG_ENOUGH)
    enough_C = log_evidence(sums_C - value * sizes_C, bets_K[:-1]) >= _LOG_ENOUGH
    return np.asarray(enough_C & ((total_C - value * pairs_C) ** 2 > farthest_C))


def _interval(sums_C: FloatArray, sizes_C: FloatArray, bets_K: FloatArray, estimate: float) -> Interval:
    """The differences that are not rejected after the last unit."""

    def end(outside: float) -> float:
        inside = estimate
        if not rejected(sums_C, sizes_C, bets_K, outside)[-1]:
            return outside
        for _ in range(_HALVINGS):
            middle = (inside + outside) / 2
            out = rejected(sums_C, sizes_C, bets_K, middle)[-1]
            inside, outside = (inside, middle) if out else (middle, outside)
        return inside

    return Interval(end(-1.0), end(1.0))


class SequentialPower(NamedTuple):
    """The probability that a difference is shown by the last unit, and the mean number of units until then."""

    power: float
    units: float


def sequential_power(pairs: int, baseline: float, effect: float, lanes: Lanes, *, truth: float) -> SequentialPower:
    """Simulates `lanes.number` units that are looked at one by one, with bets for `effect`, if the effect is `truth`.

    `pairs` counts those of all units. Over 1,000 draws: the standard error of a power of 0.5 is 0.016.
    """
    hit_B_C = _shown(pairs, pair_rates(baseline, truth, CORRELATION), lanes, bets_for(baseline, effect))
    any_B = hit_B_C.any(axis=1)
    ended_B = np.where(any_B, hit_B_C.argmax(axis=1) + 1, lanes.number)
    return SequentialPower(float(any_B.mean()), float(ended_B.mean()))


def units_needed(pairs: int, baseline: float, effect: float, start: int, *, power: float = 0.8) -> int | None:
    """The fewest units of `pairs` pairs each with that power; None if 10 times `start` are too few."""
    most = 10 * start
    rates, bets_K = pair_rates(baseline, effect, CORRELATION), bets_for(baseline, effect)
    hit_B_C = _shown(most * pairs, rates, Lanes(most), bets_K)
    shown_C = np.maximum.accumulate(hit_B_C, axis=1).mean(axis=0)
    return int(np.argmax(shown_C >= power)) + 1 if shown_C[-1] >= power else None


def _shown(pairs: int, rates: PairRates, lanes: Lanes, bets_K: FloatArray) -> npt.NDArray[np.bool_]:
    """Whether a difference is shown after each unit of simulated comparisons, shape (B, C)."""
    return np.asarray(log_evidence(drawn_sums(pairs, rates, lanes, _DRAWS), bets_K) >= _LOG_ENOUGH)
