"""Proportions and their intervals."""

import math
from typing import NamedTuple

Z95 = 1.959963984540054
"""The normal quantile of a two-sided 95 % interval."""


class Interval(NamedTuple):
    """A closed 95 % interval. Ends may be infinite."""

    low: float
    high: float

    @property
    def width(self) -> float:
        """`high - low`."""
        return self.high - self.low


class Rate(NamedTuple):
    """`successes` out of `trials`, which say as much as `effective` independent ones (None: as many)."""

    successes: int
    trials: int
    effective: float | None = None

    @property
    def value(self) -> float:
        """The proportion; NaN without trials."""
        return self.successes / self.trials if self.trials else math.nan

    @property
    def interval(self) -> Interval:
        """The Wilson interval of the proportion, over the effective trials."""
        return wilson(self.successes, self.trials, self.effective)

    def __str__(self) -> str:
        low, high = (f"{100 * end:.0f}" for end in self.interval)
        return f"{self.successes}/{self.trials} ({low}-{high} %)"

    def to_dict(self) -> dict[str, float | None]:
        """The rate and its interval for JSON; the rate is null without trials."""
        low, high = self.interval
        rate = self.value if self.trials else None
        return {"count": self.successes, "of": self.trials, "rate": rate, "low": low, "high": high}


def wilson(successes: float, trials: int, effective: float | None = None) -> Interval:
    """The 95 % score interval of a proportion (Wilson 1927); (0, 1) without trials.

    Unlike the Wald interval it stays within [0, 1] and has positive width at 0 and 1. `effective` is the number of
    independent trials, if it differs (`hermes_lab.analysis.stats.rates`).
    """
    if trials == 0:
        return Interval(0.0, 1.0)
    share, n = successes / trials, trials if effective is None else effective
    shrink = 1 + Z95**2 / n
    centre = (share + Z95**2 / (2 * n)) / shrink
    half = Z95 / shrink * math.sqrt(share * (1 - share) / n + Z95**2 / (4 * n**2))
    # At 0 and 1 the score interval is exact; rounding must not exclude the estimate.
    low = 0.0 if successes == 0 else centre - half
    high = 1.0 if successes == trials else centre + half
    return Interval(low, high)


def mover_sum(first: float, of_first: Interval, second: float, of_second: Interval, correlation: float) -> Interval:
    """The 95 % interval of a sum of two estimates, from their intervals and correlation.

    MOVER, Zou and Donner 2008, Stat. Med. 27:1693; for two proportions it is Newcombe's method.
    """

    def reach(a: float, b: float) -> float:
        return math.sqrt(max(a * a + b * b + 2 * correlation * a * b, 0.0))

    total = first + second
    return Interval(
        total - reach(first - of_first.low, second - of_second.low),
        total + reach(of_first.high - first, of_second.high - second),
    )
