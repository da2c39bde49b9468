"""Power analysis for the tests that `compare` uses.

Without lanes that is McNemar's mid-p test, whose power is an exact sum over the number of discordant pairs (Suissa and
Shuster 1991, Biometrics 47:361). With `MIN_UNITS` lanes or more `compare` flips the signs of whole lanes: then the
power is simulated, by drawing pairs and testing them as `compare` does. Array names end in their axes: B draws, C
lanes.
"""

import math
from typing import NamedTuple

import numpy as np

from hermes_lab.analysis.curves import Array
from hermes_lab.analysis.stats.paired import Integers
from hermes_lab.analysis.stats.rates import MIN_UNITS
from hermes_lab.errors import ConfigError

ALPHA = 0.05
"""The two-sided level of every test here."""
CORRELATION = 0.2
"""Default correlation of the two outcomes of a pair.

A task that is hard without skills tends to be hard with them. Normal difficulties on the logit scale with a standard
deviation of 1.2 give 0.2 at rates of 60 and 76 %. 0 is conservative: it needs a quarter more pairs.
"""
MAX_PAIRS = 1_000_000
"""Upper limit of a number of pairs."""


DRAWS = 1000
"""Simulated comparisons; the standard error of a power of 0.8 is 0.013."""
_GRID = 500
"""Steps of a sum beyond which power is computed with rounded sums."""


class PairRates(NamedTuple):
    """The shares of discordant pairs: solved only before, and solved only after."""

    lost: float
    gained: float


class Lanes(NamedTuple):
    """The clustering of pairs in `number` lanes of equal size.

    `correlation` is the intraclass correlation of changes (after - before) in a lane: 0 if the effect is the same in
    every lane.
    """

    number: int
    correlation: float = 0.0
    what: str = "lanes"
    """`worlds` if all lanes of a world form one cluster."""


def pair_rates(baseline: float, effect: float, correlation: float = CORRELATION) -> PairRates:
    """The shares of discordant pairs, given the two success rates and their phi correlation.

    A correlation that the rates do not allow is moved to the nearest possible one. Raises `ConfigError` for a rate or
    correlation out of range.
    """
    after = baseline + effect
    if not (0 <= baseline <= 1 and -1e-12 <= after <= 1 + 1e-12):
        raise ConfigError(
            f"a baseline of {baseline:g} with an effect of {effect:g} gives {after:g}, which is not a success rate; "
            "rates are fractions, such as 0.6"
        )
    if not -1 <= correlation <= 1:
        raise ConfigError(f"a correlation must be between -1 and 1, not {correlation:g}")
    after = min(max(after, 0.0), 1.0)
    both = baseline * after + correlation * math.sqrt(baseline * (1 - baseline) * after * (1 - after))
    both = min(max(both, baseline + after - 1, 0.0), baseline, after)
    return PairRates(baseline - both, after - both)


def power_of_pairs(
    pairs: int,
    baseline: float,
    effect: float,
    correlation: float = CORRELATION,
    *,
    lanes: Lanes | None = None,
    alpha: float = ALPHA,
) -> float:
    """The probability that `pairs` pairs give p < `alpha` if success goes from `baseline` to `baseline + effect`.

    Rates and effect are fractions: 0.6 and 0.16 are 60 and 76 %. As in `compare`, pairs are taken as independent
    without lanes, with fewer than `MIN_UNITS`, or with at most one pair per lane. Raises `ConfigError` for rates out of
    range.
    """
    rates = pair_rates(baseline, effect, correlation)
    if pairs < 1:
        return 0.0
    if pairs > MAX_PAIRS:
        raise ConfigError(f"at most {MAX_PAIRS} pairs, not {pairs}")
    alone = _mcnemar_power(pairs, rates, alpha)
    if lanes and MIN_UNITS <= lanes.number < pairs:
        return min(_lanes_power(pairs, rates, lanes, alpha), alone)
    return alone


def pairs_for(
    power: float, baseline: float, effect: float, correlation: float = CORRELATION, *, lanes: Lanes | None = None
) -> int:
    """The fewest pairs with at least this power. Raises `ConfigError` if no number of pairs is enough."""
    if not 0 < power < 1:
        raise ConfigError(f"power must be between 0 and 1, not {power:g}")

    def enough(pairs: int) -> bool:
        return power_of_pairs(pairs, baseline, effect, correlation, lanes=lanes) >= power

    too_few, pairs = 0, 1
    while effect and pairs < MAX_PAIRS and not enough(pairs):
        too_few, pairs = pairs, min(2 * pairs, MAX_PAIRS)
    if not effect or pairs >= MAX_PAIRS:
        within = f" in {lanes.number} {lanes.what}; plan more {lanes.what}" if lanes else ""
        raise ConfigError(f"no number of pairs detects {_points(effect)} with power {power:g}{within}")
    while pairs - too_few > 1:
        middle = (too_few + pairs) // 2
        too_few, pairs = (too_few, middle) if enough(middle) else (middle, pairs)
    return pairs


def detectable(
    pairs: int,
    baseline: float,
    power: float = 0.8,
    correlation: float = CORRELATION,
    *,
    direction: int = 1,
    lanes: Lanes | None = None,
    alpha: float = ALPHA,
) -> float | None:
    """The minimum detectable effect at this power: an increase, or with `direction` -1 a decrease.

    None if even a change to 100 % (or 0 %) has less power.
    """
    nothing, all_of_it = 0.0, (1 - baseline if direction > 0 else -baseline)
    if power_of_pairs(pairs, baseline, all_of_it, correlation, lanes=lanes, alpha=alpha) < power:
        return None
    while abs(all_of_it - nothing) > 1e-4:
        middle = (nothing + all_of_it) / 2
        found = power_of_pairs(pairs, baseline, middle, correlation, lanes=lanes, alpha=alpha) >= power
        nothing, all_of_it = (nothing, middle) if found else (middle, all_of_it)
    return all_of_it


def sentence(
    pairs: int, baseline: float, effect: float, correlation: float = CORRELATION, *, lanes: Lanes | None = None
) -> str:
    """The power in one line.

    `100 pairs detect +16 points (60 % -> 76 %) with power 0.72`
    """
    power = power_of_pairs(pairs, baseline, effect, correlation, lanes=lanes)
    where = f" in {min(lanes.number, pairs)} {lanes.what}" if lanes and lanes.number >= MIN_UNITS else ""
    return (
        f"{pairs} pairs{where} detect {_points(effect)} "
        f"({100 * baseline:.0f} % -> {100 * (baseline + effect):.0f} %) with power {power:.2f}"
    )


def assumptions(correlation: float = CORRELATION, *, lanes: Lanes | None = None) -> str:
    """The assumptions of the power analysis, in one line."""
    pair = f"outcome correlation within a pair {correlation:g}"
    if lanes and lanes.number >= MIN_UNITS:
        one = lanes.what.removesuffix("s")
        return (
            f"{pair}, correlation of changes within a {one} {lanes.correlation:g}; "
            f"two-sided p < {ALPHA}, sign-flip test over {lanes.what}"
        )
    return f"{pair}, independent pairs; two-sided p < {ALPHA}, McNemar's mid-p test"


def _points(effect: float) -> str:
    return f"{100 * effect:+.0f} points"


def _mcnemar_power(pairs: int, rates: PairRates, alpha: float) -> float:
    """Sums over the number m of discordant pairs, among which gains are binomial, as is the test."""
    from scipy.stats import binom

    changed = rates.lost + rates.gained
    if changed == 0:
        return 0.0
    m = np.arange(pairs + 1)
    # The critical value for m discordant pairs: the most losses (or gains) that are significant; -1 if none.
    most = binom.ppf(alpha / 2, m, 0.5)
    most = np.where(2 * binom.cdf(most, m, 0.5) - binom.pmf(most, m, 0.5) < alpha, most, most - 1)
    gained = rates.gained / changed
    detected = binom.cdf(most, m, gained) + binom.cdf(most, m, 1 - gained)
    return float(min(binom.pmf(m, pairs, changed) @ detected, 1.0))


def _lanes_power(pairs: int, rates: PairRates, lanes: Lanes, alpha: float) -> float:
    """The share of significant sign-flip tests over lanes among `DRAWS` simulated comparisons."""
    return float((flip_p_values(drawn_sums(pairs, rates, lanes, DRAWS)) < alpha).mean())


def drawn_sums(pairs: int, rates: PairRates, lanes: Lanes, draws: int) -> Integers:
    """The sums of changes in each lane of simulated comparisons, shape (draws, lanes).

    Two changes in a lane have the correlation of `lanes`: each is the lane's own draw with the square root of that
    probability, and a draw of its own otherwise.
    """
    random = np.random.default_rng(0)
    pairs_C = np.full(lanes.number, pairs // lanes.number) + (np.arange(lanes.number) < pairs % lanes.number)
    drawn_B_C = random.random((draws, lanes.number))
    shared_B_C = (drawn_B_C > 1 - rates.gained).astype(np.int64) - (drawn_B_C < rates.lost)
    copies_B_C = random.binomial(pairs_C, math.sqrt(lanes.correlation), (draws, lanes.number))
    gained_B_C = random.binomial(pairs_C - copies_B_C, rates.gained)
    of_rest = rates.lost / (1 - rates.gained) if rates.gained < 1 else 0.0
    lost_B_C = random.binomial(pairs_C - copies_B_C - gained_B_C, min(of_rest, 1.0))
    sums_B_C: Integers = shared_B_C * copies_B_C + gained_B_C - lost_B_C
    return sums_B_C


def flip_p_values(sums_B_C: Integers) -> Array:
    """The mid-p of `sign_flip` for each row of unit sums, from the characteristic function of a flipped sum: the
    product of cos(angle * sum). Sums beyond `_GRID` are rounded."""
    sizes_B_C = np.abs(sums_B_C)
    reach_B = sizes_B_C.sum(axis=1)
    seen_B = np.abs(sums_B_C.sum(axis=1))
    reach = int(reach_B.max(initial=0))
    if reach > _GRID:
        sizes_B_C = np.rint(sums_B_C * (_GRID / reach)).astype(np.int64)
        seen_B, reach = np.abs(sizes_B_C.sum(axis=1)), int(np.abs(sizes_B_C).sum(axis=1).max())
    number = 2 * reach + 1
    angles_K = 2 * np.pi * np.arange(reach + 1) / number
    sums_B_K = np.ones((len(sizes_B_C), reach + 1))
    for sizes_B in sizes_B_C.T:
        sums_B_K *= np.cos(np.outer(sizes_B, angles_K))
    ways_B_K = np.fft.irfft(sums_B_K, n=number, axis=1)[:, : reach + 1]  # the probability of each sum from 0 on
    ways_B_K[:, 1:] *= 2  # and of its opposite
    beyond_B_K = np.arange(reach + 1) - seen_B[:, None]
    p_B: Array = (ways_B_K * (beyond_B_K > 0)).sum(axis=1) + (ways_B_K * (beyond_B_K == 0)).sum(axis=1) / 2
    return np.where(reach_B == 0, 1.0, p_B)
