"""Kaplan-Meier survival curve: the share of tasks still unsolved, with censoring.

Intervals treat tasks as independent: use them for plots, not to compare runs.
"""

import math
from fractions import Fraction
from itertools import accumulate
from operator import mul
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hermes_lab.analysis.curves import Array
from hermes_lab.analysis.stats.intervals import Z95, Interval
from hermes_lab.errors import ConfigError


class Median(NamedTuple):
    """The time by which half are solved; infinite if not reached, as may be the ends of its interval."""

    value: float
    interval: Interval

    def __str__(self) -> str:
        low, high = (f"{end:.3g}" if math.isfinite(end) else "not reached" for end in self.interval)
        if math.isinf(self.interval.low):
            return "not reached"
        return f"{self.value:.3g} ({low} to {high})" if math.isfinite(self.value) else f"not reached (from {low})"


class KaplanMeier(NamedTuple):
    """The survival curve at the T distinct event times; flat between them.

    `error_T` is Greenwood's standard error. `low_T` and `high_T` are 95 % intervals on the scale
    log(-log(survival)), which keeps them inside [0, 1]; NaN where survival is 0.
    """

    times_T: Array
    at_risk_T: Array
    solved_T: Array
    survival_T: Array
    error_T: Array
    low_T: Array
    high_T: Array

    @property
    def median(self) -> Median:
        """The median with the interval of Brookmeyer and Crowley (1982): where the band contains one half."""
        return Median(
            self._first(self.survival_T <= 0.5),
            Interval(self._first(self.low_T <= 0.5), self._first(self.high_T <= 0.5)),
        )

    def _first(self, below_T: npt.NDArray[np.bool_]) -> float:
        # At survival 0 there is no interval, but both ends are past one half.
        passed_T = below_T | (self.survival_T == 0)
        return float(self.times_T[passed_T.argmax()]) if passed_T.any() else math.inf


def kaplan_meier(times: npt.ArrayLike, censored: npt.ArrayLike) -> KaplanMeier:
    """The product-limit estimate (Kaplan and Meier 1958, J. Am. Stat. Assoc. 53:457).

    `times`, shape (N,): until solved, or until last seen unsolved if `censored` is true. A task censored at an event
    time was still at risk then. Raises `ConfigError` without tasks.
    """
    times_N, censored_N = _checked(times, censored)
    times_T, solved_T = _solved(times_N, censored_N)
    at_risk_T = _at_risk(times_N, times_T)
    survival_T = _survival(at_risk_T, solved_T)
    with np.errstate(divide="ignore", invalid="ignore"):
        # Greenwood's sum is infinite when nobody is left; the error is then 0 and the interval undefined.
        sum_T = np.cumsum(solved_T / (at_risk_T * (at_risk_T - solved_T)))
        error_T = np.where(survival_T > 0, survival_T * np.sqrt(sum_T), 0.0)
        reach_T = np.exp(Z95 * np.sqrt(sum_T) / np.abs(np.log(survival_T)))
        low_T, high_T = survival_T**reach_T, survival_T ** (1 / reach_T)
    whole_T = survival_T > 0
    return KaplanMeier(
        times_T,
        at_risk_T,
        solved_T,
        survival_T,
        error_T,
        np.where(whole_T, low_T, np.nan),
        np.where(whole_T, high_T, np.nan),
    )


def _survival(at_risk_T: Array, solved_T: Array) -> Array:
    """Products of (at risk - solved) / at risk, as exact fractions: a product of floats may miss one half by a digit,
    and the median by an event."""
    kept = (Fraction(int(risk - solved), int(risk)) for risk, solved in zip(at_risk_T, solved_T, strict=True))
    return np.array([float(share) for share in accumulate(kept, mul)])


def _checked(times: npt.ArrayLike, censored: npt.ArrayLike) -> tuple[Array, npt.NDArray[np.bool_]]:
    times_N, censored_N = np.asarray(times, dtype=np.float64), np.asarray(censored, dtype=np.bool_)
    if times_N.ndim != 1 or not times_N.size or times_N.shape != censored_N.shape:
        raise ConfigError("times, censored: give one entry per task, for at least one task")
    if not (times_N >= 0).all():
        raise ConfigError("times: must not be negative or missing")
    return times_N, censored_N


def _solved(times_N: Array, censored_N: npt.NDArray[np.bool_]) -> tuple[Array, Array]:
    times_T, solved_T = np.unique(times_N[~censored_N], return_counts=True)
    return times_T, solved_T.astype(np.float64)


def _at_risk(times_N: Array, times_T: Array) -> Array:
    """How many were at risk (unsolved, not censored) just before each time."""
    return (times_N.size - np.searchsorted(np.sort(times_N), times_T, side="left")).astype(np.float64)
