"""Power analysis for the tests that `compare` uses.

Without lanes that is McNemar's exact test, whose power is an exact sum over the number of discordant pairs (Suissa and
Shuster 1991, Biometrics 47:361). With `MIN_LANES` lanes or more `compare` flips the signs of whole lanes: with many
lanes that has the power of Student's test on the lanes' mean changes; with few, the power is simulated. Array names end
in their axes: B draws, C lanes, F flips.
"""

import math
from typing import NamedTuple

import numpy as np

from hermes_lab.analysis.curves import Array
from hermes_lab.analysis.stats.paired import MIN_LANES
from hermes_lab.errors import ConfigError

ALPHA = 0.05
"""The two-sided level of every test here."""
CORRELATION = 0.2
"""Default correlation of the two outcomes of a pair.

A task that is hard without skills tends to be hard with them. Normal difficulties on the logit scale with a standard
deviation of 1.2 give 0.2 at rates of 60 and 76 %. 0 is conservative: it needs a quarter more pairs.
"""
MAX_PAIRS = 1_000_000
"""Upper limit of the search for a number of pairs."""


FEW_LANES = 12
"""Up to this many lanes the power is simulated with `DRAWS` draws; beyond, that of Student's test."""
DRAWS = 2000


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
            f"a baseline of {baseline:g} with an effect of {effect:g} gives {after:g}, which is no success rate; "
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
    without lanes, with fewer than `MIN_LANES`, or with at most one pair per lane. Raises `ConfigError` for rates out of
    range.
    """
    rates = pair_rates(baseline, effect, correlation)
    if pairs < 1:
        return 0.0
    if lanes and MIN_LANES <= lanes.number < pairs:
        return _lanes_power(pairs, rates, lanes, alpha)
    return _mcnemar_power(pairs, rates, alpha)


def pairs_for(
    power: float, baseline: float, effect: float, correlation: float = CORRELATION, *, lanes: Lanes | None = None
) -> int:
    """The fewest pairs with at least this power. Raises `ConfigError` if no number of pairs is enough."""
    if not 0 < power < 1:
        raise ConfigError(f"power must be between 0 and 1, not {power:g}")

    def enough(pairs: int) -> bool:
        return power_of_pairs(pairs, baseline, effect, correlation, lanes=lanes) >= power

    too_few, pairs = 0, 1
    while effect and not enough(pairs) and pairs < MAX_PAIRS:
        too_few, pairs = pairs, 2 * pairs
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
    where = f" in {min(lanes.number, pairs)} {lanes.what}" if lanes and lanes.number >= MIN_LANES else ""
    return (
        f"{pairs} pairs{where} detect {_points(effect)} "
        f"({100 * baseline:.0f} % -> {100 * (baseline + effect):.0f} %) with power {power:.2f}"
    )


def assumptions(correlation: float = CORRELATION, *, lanes: Lanes | None = None) -> str:
    """The assumptions of the power analysis, in one line."""
    pair = f"outcome correlation within a pair {correlation:g}"
    if lanes and lanes.number >= MIN_LANES:
        one = lanes.what.removesuffix("s")
        return (
            f"{pair}, correlation of changes within a {one} {lanes.correlation:g}; "
            f"two-sided p < {ALPHA}, sign-flip test over {lanes.what}"
        )
    return f"{pair}, independent pairs; two-sided p < {ALPHA}, McNemar's exact test"


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
    most = np.where(2 * binom.cdf(most, m, 0.5) < alpha, most, most - 1)
    gained = rates.gained / changed
    detected = binom.cdf(most, m, gained) + binom.cdf(most, m, 1 - gained)
    return float(min(binom.pmf(m, pairs, changed) @ detected, 1.0))


def _lanes_power(pairs: int, rates: PairRates, lanes: Lanes, alpha: float) -> float:
    """Sign-flip test over lanes with normal mean changes and a design effect for correlated pairs."""
    effect = rates.gained - rates.lost
    variance = rates.gained + rates.lost - effect**2
    per_lane = pairs / lanes.number
    spread = variance * (1 + (per_lane - 1) * lanes.correlation) / per_lane
    if spread <= 0:
        return float(effect != 0)
    if lanes.number > FEW_LANES:
        return _student_power(lanes.number, abs(effect) / math.sqrt(spread / lanes.number), alpha)
    normal_B_C = np.random.default_rng(0).standard_normal((DRAWS, lanes.number))
    return _flip_power(np.round(per_lane * (effect + math.sqrt(spread) * normal_B_C)), alpha)


def _student_power(lanes: int, shift: float, alpha: float) -> float:
    """From the noncentral t distribution; `shift` is the effect in standard errors."""
    from scipy.stats import nct, t

    critical = t.ppf(1 - alpha / 2, lanes - 1)
    # Beyond 8 the power is 1 to four digits, and scipy's noncentral t fails in the far tail.
    shift = min(shift, 8.0)
    return float(nct.sf(critical, lanes - 1, shift) + nct.cdf(-critical, lanes - 1, shift))


def _flip_power(sums_B_C: Array, alpha: float) -> float:
    """The share of significant draws, counting all sign flips; by symmetry half of them suffice."""
    lanes = sums_B_C.shape[1]
    signs_F_C = 1.0 - 2.0 * (np.arange(2 ** (lanes - 1))[:, None] >> np.arange(lanes) & 1)
    reach_B_F = np.abs(sums_B_C @ signs_F_C.T)
    p_B = (reach_B_F >= np.abs(sums_B_C.sum(axis=1))[:, None]).mean(axis=1)
    return float((p_B < alpha).mean())
