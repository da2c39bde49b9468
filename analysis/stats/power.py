"""What an experiment can detect: the power of the tests that `compare` uses, before anything is measured.

Without lanes it is McNemar's exact test, whose power is a sum over how many pairs can differ, exact as well (Suissa and
Shuster 1991, Biometrics 47:361). With `MIN_LANES` lanes or more `compare` flips the signs of whole lanes. For many that
has the power of Student's test on the lanes' mean changes; for few, where only some flips are extreme enough, that of
the test itself, made on drawn lanes. Arrays end in their axes: B draws, C lanes, F flips.
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
"""How the two outcomes of a pair correlate unless one says otherwise.

A task that is hard without skills is rather hard with them. Difficulties that are normal on the logit scale with a
standard deviation of 1.2 give 0.2 at rates of 60 and 76 %. 0 is the cautious choice: it costs a quarter more pairs.
"""
MAX_PAIRS = 1_000_000
"""More than that nobody will run, and no plan is made for it."""


FEW_LANES = 12
"""Up to so many lanes the power is that of the test itself, with `DRAWS` draws; beyond, of Student's."""
DRAWS = 2000


class PairRates(NamedTuple):
    """The shares of all pairs in which only the outcome before was right, and only the one after."""

    lost: float
    gained: float


class Lanes(NamedTuple):
    """How pairs cluster: in `number` lanes of equal size.

    `correlation` is the intraclass correlation of two changes (after - before) in one lane: 0 where the effect is the
    same in every lane and lanes of both arms had the same luck.
    """

    number: int
    correlation: float = 0.0
    what: str = "lanes"
    """`worlds` where all lanes of a world go together."""


def pair_rates(baseline: float, effect: float, correlation: float = CORRELATION) -> PairRates:
    """How often the outcomes of a pair differ, from the two success rates and their (phi) correlation.

    A correlation that the two rates do not allow is moved to the nearest one that they do. Raises `ConfigError` where
    a rate or the correlation is none.
    """
    after = baseline + effect
    if not (0 <= baseline <= 1 and -1e-12 <= after <= 1 + 1e-12):
        raise ConfigError(
            f"a baseline of {baseline:g} and an effect of {effect:g} make no success rate: {after:g}; "
            "rates are shares, such as 0.6"
        )
    if not -1 <= correlation <= 1:
        raise ConfigError(f"a correlation lies between -1 and 1, not at {correlation:g}")
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
    """The probability that `pairs` pairs give p < `alpha` when success goes from `baseline` to `baseline + effect`.

    Rates and effect are fractions: 0.6 and 0.16 are 60 and 76 %. With fewer than `MIN_LANES` lanes, or none given, the
    pairs are taken as independent, which is what `compare` does there; so are they with no more pairs than lanes,
    one in each. Raises `ConfigError` where the rates are none.
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
    """The fewest pairs whose power is at least `power`. Raises `ConfigError` where no number of pairs is enough."""
    if not 0 < power < 1:
        raise ConfigError(f"a power lies between 0 and 1, not at {power:g}")

    def enough(pairs: int) -> bool:
        return power_of_pairs(pairs, baseline, effect, correlation, lanes=lanes) >= power

    too_few, pairs = 0, 1
    while effect and not enough(pairs) and pairs < MAX_PAIRS:
        too_few, pairs = pairs, 2 * pairs
    if not effect or pairs >= MAX_PAIRS:
        within = f" in {lanes.number} {lanes.what}; plan more {lanes.what}" if lanes else ""
        raise ConfigError(f"no number of pairs detects {_points(effect)} with probability {power:g}{within}")
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
    """The smallest effect, a rise or (`direction` -1) a fall, that is detected with probability `power`.

    None where even a change to 100 % (or 0 %) would be missed too often.
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
    """What will be detected, in one line.

    `with 100 pairs you will detect +16 points (60 % -> 76 %) with probability 0.72`
    """
    power = power_of_pairs(pairs, baseline, effect, correlation, lanes=lanes)
    where = f" in {min(lanes.number, pairs)} {lanes.what}" if lanes and lanes.number >= MIN_LANES else ""
    return (
        f"with {pairs} pairs{where} you will detect {_points(effect)} "
        f"({100 * baseline:.0f} % -> {100 * (baseline + effect):.0f} %) with probability {power:.2f}"
    )


def assumptions(correlation: float = CORRELATION, *, lanes: Lanes | None = None) -> str:
    """What the power is computed under, in one line."""
    pair = f"the outcomes of a pair correlate {correlation:g}"
    if lanes and lanes.number >= MIN_LANES:
        one = lanes.what.removesuffix("s")
        return (
            f"{pair}, changes in a {one} {lanes.correlation:g}; "
            f"two-sided p < {ALPHA} by flipping the signs of {lanes.what}"
        )
    return f"{pair}, pairs are independent; two-sided p < {ALPHA} by McNemar's exact test"


def _points(effect: float) -> str:
    return f"{100 * effect:+.0f} points"


def _mcnemar_power(pairs: int, rates: PairRates, alpha: float) -> float:
    """Sums over the number m of pairs that differ: among these the gains are binomial, and the test is too."""
    from scipy.stats import binom

    changed = rates.lost + rates.gained
    if changed == 0:
        return 0.0
    m = np.arange(pairs + 1)
    # The most losses, or gains, at which m changed pairs are significant; -1 where none are.
    most = binom.ppf(alpha / 2, m, 0.5)
    most = np.where(2 * binom.cdf(most, m, 0.5) < alpha, most, most - 1)
    gained = rates.gained / changed
    detected = binom.cdf(most, m, gained) + binom.cdf(most, m, 1 - gained)
    return float(min(binom.pmf(m, pairs, changed) @ detected, 1.0))


def _lanes_power(pairs: int, rates: PairRates, lanes: Lanes, alpha: float) -> float:
    """Sign flipping over lanes whose mean changes are normal, with a design effect for what a lane's pairs share."""
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
    """By the noncentral t distribution; `shift` is the effect in standard errors."""
    from scipy.stats import nct, t

    critical = t.ppf(1 - alpha / 2, lanes - 1)
    # Beyond 8 the power is 1 to four digits, and scipy's noncentral t has no far tail.
    shift = min(shift, 8.0)
    return float(nct.sf(critical, lanes - 1, shift) + nct.cdf(-critical, lanes - 1, shift))


def _flip_power(sums_B_C: Array, alpha: float) -> float:
    """The share of draws that are significant when all ways to flip their lanes are counted; half of them suffice."""
    lanes = sums_B_C.shape[1]
    signs_F_C = 1.0 - 2.0 * (np.arange(2 ** (lanes - 1))[:, None] >> np.arange(lanes) & 1)
    reach_B_F = np.abs(sums_B_C @ signs_F_C.T)
    p_B = (reach_B_F >= np.abs(sums_B_C.sum(axis=1))[:, None]).mean(axis=1)
    return float((p_B < alpha).mean())
