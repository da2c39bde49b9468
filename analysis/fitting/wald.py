"""Covariances of a fitted curve's parameters, and the intervals that are made of them alone.

Two covariances on the unbounded scale: the model's, the inverse of the Fisher information, which takes episodes
as independent; and the robust one, a sandwich of it with the scores summed over each run (Godambe 1960; Liang and
Zeger 1986), which holds however the episodes of a run depend on one another.
"""

import math
from typing import NamedTuple

import numpy as np

from hermes_lab.analysis.curves import Array
from hermes_lab.analysis.fitting.likelihood import derivatives, natural, unbounded
from hermes_lab.analysis.fitting.result import Fit
from hermes_lab.analysis.stats.intervals import Interval
from hermes_lab.errors import ConfigError


class Covariance(NamedTuple):
    """Of K parameters on the unbounded scale, each (K, K)."""

    model: Array
    robust: Array

    @property
    def dispersion(self) -> float:
        """How many times as uncertain the runs are as their episodes, were these independent: 1 where they are.

        The mean eigenvalue of robust against model, by which a likelihood ratio is divided to be comparable with
        a chi-squared of K degrees (Rotnitzky and Jewell 1990, Biometrika 77:485; Chandler and Bate 2007,
        Biometrika 94:167).
        """
        # The inverse as far as there is one: at a perfect fit the data leave a direction without any spread.
        return float(np.trace(np.linalg.pinv(self.model, hermitian=True) @ self.robust) / len(self.model))


def covariance(fit: Fit, *names: str) -> Covariance:
    """Of the parameters of these names, in this order; the others are estimated with them.

    Other parameters that sit on a bound count as known. Runs are few, so that the robust one is multiplied by
    C / (C - 1).
    """
    curve = fit.curve
    own = [[parameter.name for parameter in curve.parameters].index(name) for name in names]
    theta_P = unbounded(curve, fit.parameters_P)
    low_P, high_P = unbounded(curve, curve.bounds(fit.counts.n_N).T)
    inside = (theta_P > low_P + 1e-9) & (theta_P < high_P - 1e-9)
    others = [p for p, parameter in enumerate(curve.parameters) if inside[p] and parameter.kind != "changepoint"]
    kept = own + [p for p in others if p not in own]
    information = derivatives(curve, theta_P, fit.counts.pooled()).information[0]
    scores_C_P = derivatives(curve, np.broadcast_to(theta_P, (fit.runs, len(theta_P))), fit.counts).score
    inverse = np.linalg.pinv(information[np.ix_(kept, kept)], hermitian=True)
    influence_C_P = (scores_C_P[:, kept] - scores_C_P[:, kept].mean(axis=0)) @ inverse
    few = fit.runs / max(fit.runs - 1, 1)
    k = slice(len(own))
    return Covariance(inverse[k, k], (influence_C_P.T @ influence_C_P)[k, k] * few)


def wald_interval(fit: Fit, parameter: str) -> Interval:
    """The 95 % interval of one parameter in natural units: symmetric on the unbounded scale, robust, and Student's.

    Raises `ConfigError` for no such parameter, and for one in which the likelihood jumps.
    """
    place = smooth_place(fit, parameter)
    theta = unbounded(fit.curve, fit.parameters_P)
    reach = student(fit.runs) * math.sqrt(covariance(fit, parameter).robust[0, 0])
    ends = np.repeat(theta[None], 2, axis=0)
    ends[:, place] += [-reach, reach]
    low, high = natural(fit.curve, ends)[:, place]
    return Interval(float(low), float(high))


def smooth_place(fit: Fit, parameter: str) -> int:
    """Where a parameter stands among the curve's; raises `ConfigError` for none, or one of no smooth likelihood."""
    names = [p.name for p in fit.curve.parameters]
    if parameter not in names:
        raise ConfigError(f"{fit.curve.name} has no parameter {parameter!r}; it has {', '.join(names)}")
    place = names.index(parameter)
    if fit.curve.parameters[place].kind == "changepoint":
        raise ConfigError(f"the likelihood jumps in {parameter}, which has no such interval: take the bootstrap's")
    return place


def student(runs: int) -> float:
    """The quantile of Student's distribution for a 95 % interval over so many runs."""
    from scipy.stats import t

    return float(t.ppf(0.975, runs - 1))
