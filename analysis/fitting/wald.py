"""Covariances of a fitted curve's parameters, and Wald intervals.

Two covariances on the unbounded scale: the model-based one, the inverse Fisher information, which assumes independent
episodes; and the robust sandwich estimator clustered by run (Godambe 1960; Liang and Zeger 1986), which is valid for
any dependence within a run.
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
    """Covariances of K parameters on the unbounded scale, each (K, K)."""

    model: Array
    robust: Array

    @property
    def dispersion(self) -> float:
        """Overdispersion of runs relative to independent episodes: 1 if episodes are independent.

        The mean eigenvalue of the robust relative to the model covariance; a likelihood ratio divided by it is
        comparable with a chi-squared of K degrees of freedom (Rotnitzky and Jewell 1990, Biometrika 77:485; Chandler
        and Bate 2007, Biometrika 94:167).
        """
        # Pseudo-inverse: at a perfect fit a direction has no variance.
        return float(np.trace(np.linalg.pinv(self.model, hermitian=True) @ self.robust) / len(self.model))


def covariance(fit: Fit, *names: str) -> Covariance:
    """The covariances of the named parameters, in this order, with the others estimated too.

    Other parameters on a bound are treated as known. The robust covariance is multiplied by C / (C - 1), since runs
    are few.
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
    """The 95 % Wald interval of one parameter in natural units: robust standard error and Student's t on the unbounded
    scale; no wider than the bounds of the search.

    Raises `ConfigError` for an unknown parameter and for a changepoint, where the likelihood is not smooth.
    """
    place = smooth_place(fit, parameter)
    theta = unbounded(fit.curve, fit.parameters_P)
    reach = student(fit.runs) * math.sqrt(covariance(fit, parameter).robust[0, 0])
    ends = np.repeat(theta[None], 2, axis=0)
    bounds = unbounded(fit.curve, fit.curve.bounds(fit.counts.n_N).T)[:, place]
    ends[:, place] = np.clip(theta[place] + np.array([-reach, reach]), *bounds)
    low, high = natural(fit.curve, ends)[:, place]
    return Interval(float(low), float(high))


def smooth_place(fit: Fit, parameter: str) -> int:
    """The index of a parameter; raises `ConfigError` if it is unknown or a changepoint."""
    names = [p.name for p in fit.curve.parameters]
    if parameter not in names:
        raise ConfigError(f"{fit.curve.name} has no parameter {parameter!r}; it has {', '.join(names)}")
    place = names.index(parameter)
    if fit.curve.parameters[place].kind == "changepoint":
        raise ConfigError(
            f"the likelihood is not smooth in {parameter}, so a Wald interval does not exist: use the bootstrap"
        )
    return place


def student(runs: int) -> float:
    """Student's t quantile of a 95 % interval over this many runs."""
    from scipy.stats import t

    return float(t.ppf(0.975, runs - 1))
