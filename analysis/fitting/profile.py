"""Profile-likelihood intervals and contours.

If runs differ, episodes carry less information than their number suggests, and plain likelihood-ratio intervals are too
narrow. The likelihood ratio is therefore divided by the dispersion between runs (`hermes_lab.analysis.fitting.wald`)
and compared with the squared Student quantile. The dispersion is about 1 if episodes are independent.

Array names end in their axes: B held values, K held parameters, P parameters, X and Y of a grid.
"""

from typing import NamedTuple

import numpy as np

from hermes_lab.analysis.curves import Array
from hermes_lab.analysis.fitting.likelihood import Maximum, maximize, natural, unbounded
from hermes_lab.analysis.fitting.result import Fit
from hermes_lab.analysis.fitting.wald import covariance, smooth_place, student
from hermes_lab.analysis.stats.bootstrap import MIN_CLUSTERS
from hermes_lab.analysis.stats.intervals import Z95, Interval
from hermes_lab.errors import ConfigError

_VALUES, _ZOOMS = 12, 3


class Contour(NamedTuple):
    """The joint profile of two parameters: the drop in log-likelihood relative to the 95 % cutoff.

    0 is the fit, 1 the edge of the joint 95 % region.
    """

    x_X: Array
    y_Y: Array
    drop_Y_X: Array


def profile_interval(fit: Fit, parameter: str, *, independent: bool = False, least: float = 0.0) -> Interval:
    """The 95 % interval of one parameter in natural units; an end on the parameter's bound is unbounded.

    `independent` treats the episodes of a run as independent; `least` is the least dispersion. Without `independent`
    raises `ConfigError` with fewer than 5 runs, whose dispersion cannot be estimated; and always for a changepoint,
    where the likelihood is not smooth.
    """
    place = smooth_place(fit, parameter)
    if independent:
        allowed = Z95**2
    else:
        _needs_runs(fit)
        allowed = student(fit.runs) ** 2 * max(covariance(fit, parameter).dispersion, least)
    ends = np.repeat(unbounded(fit.curve, fit.parameters_P)[None], 2, axis=0)
    bounds = unbounded(fit.curve, fit.curve.bounds(fit.counts.n_N).T)[:, place]
    ends[:, place] = [_end(fit, place, allowed, bound) for bound in bounds]
    low, high = natural(fit.curve, ends)[:, place]
    return Interval(float(low), float(high))


def contour(fit: Fit, x: str, y: str, *, points: int = 31) -> Contour:
    """The profile likelihood of two parameters on a grid around the fit, in natural units.

    The grid extends 4 standard errors each way, within the bounds. Raises `ConfigError` as `profile_interval`.
    """
    from scipy.stats import f

    places = [smooth_place(fit, name) for name in (x, y)]
    _needs_runs(fit)
    both = covariance(fit, x, y)
    # Hotelling's quantile, the two-parameter version of Student's.
    allowed = both.dispersion * 2 * (fit.runs - 1) / (fit.runs - 2) * f.ppf(0.95, 2, fit.runs - 2)
    best_P = unbounded(fit.curve, fit.parameters_P)
    bounds = unbounded(fit.curve, fit.curve.bounds(fit.counts.n_N).T)
    axes = [
        np.linspace(max(best_P[place] - reach, bounds[0, place]), min(best_P[place] + reach, bounds[1, place]), points)
        for place, reach in zip(places, 4 * np.sqrt(np.diag(both.robust)), strict=True)
    ]
    grid_B_K = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
    drop_Y_X = _drop(fit, _held(fit, places, grid_B_K, _starts(fit))).reshape(points, points)
    units = np.repeat(best_P[None], points, axis=0)
    units[:, places] = np.transpose(axes)
    x_X, y_Y = natural(fit.curve, units)[:, places].T
    return Contour(x_X, y_Y, drop_Y_X / allowed)


def _end(fit: Fit, place: int, allowed: float, bound: float) -> float:
    """Where the drop first exceeds `allowed` between the estimate and `bound`; `bound` if it never does."""
    inside, outside = float(unbounded(fit.curve, fit.parameters_P)[place]), bound
    if inside == outside:
        return bound
    starts_S_P = _starts(fit)
    for _ in range(_ZOOMS):
        values_B = np.linspace(inside, outside, _VALUES)
        best = _held(fit, [place], values_B[:, None], starts_S_P)
        drop_B = _drop(fit, best)
        beyond = drop_B > allowed
        if not beyond.any():
            return bound
        first = max(int(beyond.argmax()), 1)
        neighbours = slice(first - 1, first + 1)
        inside, outside = values_B[neighbours]
        starts_S_P = best.parameters_B_P[neighbours]
    # Between neighbours the square root of the drop is nearly linear.
    near, far = np.sqrt(drop_B[neighbours])
    return float(inside + (outside - inside) * (np.sqrt(allowed) - near) / (far - near))


def _starts(fit: Fit) -> Array:
    pooled = fit.counts.pooled()
    return np.vstack([fit.parameters_P, fit.curve.starts(pooled.n_N, (pooled.successes / pooled.trials)[0])])


def _held(fit: Fit, places: list[int], values_B_K: Array, starts_S_P: Array) -> Maximum:
    """Maximises over the other parameters with these held at values on the unbounded scale."""
    theta_B_S_P = np.repeat(unbounded(fit.curve, starts_S_P)[None], len(values_B_K), axis=0)
    theta_B_S_P[..., places] = values_B_K[:, None, :]
    repeated = fit.counts.pooled().rows(np.zeros(len(values_B_K), dtype=np.intp))
    held = [fit.curve.parameters[place].name for place in places]
    return maximize(fit.curve, repeated, natural(fit.curve, theta_B_S_P), held=held)


def _drop(fit: Fit, best: Maximum) -> Array:
    """Twice the drop in log-likelihood from the fit."""
    return np.maximum(2 * (fit.log_likelihood - best.log_likelihood_B), 0.0)


def _needs_runs(fit: Fit) -> None:
    if fit.runs < MIN_CLUSTERS:
        raise ConfigError(
            f"{fit.runs} lanes are too few to estimate their dispersion ({MIN_CLUSTERS} needed); add lanes, or use "
            "independent=True"
        )
