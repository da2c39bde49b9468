"""Likelihood of censored times that decrease to a floor, fitted by `hermes_lab.analysis.survival.times`.

The median time after n tasks is floor + (initial - floor) exp(-rate n); times are log-normal around it, with standard
deviation `spread` of their logarithms. A time stopped by a budget is right-censored: it contributes the probability of
a longer time.

Parameters are (initial, floor, rate, spread), all positive and optimised as logarithms.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hermes_lab.analysis.curves import Array

INITIAL, FLOOR, RATE, SPREAD = range(4)


class Times(NamedTuple):
    """Tasks seen before, seconds until solved or censored, whether censored, and weights; all (N,)."""

    n_N: Array
    seconds_N: Array
    censored_N: npt.NDArray[np.bool_]
    weight_N: Array


def median(parameters: Array, n_N: Array) -> Array:
    """Median seconds at `n_N`, shape (..., N), for parameters of shape (..., P)."""
    initial, floor, rate = (parameters[..., p, None] for p in (INITIAL, FLOOR, RATE))
    value: Array = floor + (initial - floor) * np.exp(-rate * n_N)
    return value


def loss(theta_P: Array, times: Times) -> tuple[float, Array]:
    """The negative log-likelihood at the log-parameters, and its gradient."""
    from scipy.special import log_ndtr

    initial, floor, rate, spread = np.exp(theta_P)
    decay_N = np.exp(-rate * times.n_N)
    median_N = floor + (initial - floor) * decay_N
    z_N = np.log(times.seconds_N / median_N) / spread
    longer_N = log_ndtr(-z_N)
    density_N = -0.5 * z_N**2 - 0.5 * np.log(2 * np.pi)
    value_N = np.where(times.censored_N, longer_N, density_N - np.log(spread * times.seconds_N))
    # The gradient of a censored time is the inverse Mills ratio.
    pull_N = np.where(times.censored_N, np.exp(density_N - longer_N), z_N)
    by_median_N = times.weight_N * pull_N / (spread * median_N)
    by_spread_N = times.weight_N * (z_N * pull_N - ~times.censored_N)
    slope_N_P = np.stack([initial * decay_N, floor * (1 - decay_N), (floor - initial) * rate * times.n_N * decay_N], -1)
    gradient_P = np.append(by_median_N @ slope_N_P, by_spread_N.sum())
    return -float(times.weight_N @ value_N), -gradient_P


def bounds(times: Times) -> Array:
    """Bounds of each parameter that the times can identify, shape (P, 2).

    Below the lowest rate the curve is a line over the data, above the highest a single step.
    """
    steps = np.diff(np.unique(times.n_N))
    step = float(steps.min()) if steps.size else 1.0
    scale = [times.seconds_N.min() / 100, times.seconds_N.max() * 100]
    return np.array([scale, scale, [0.01 / max(float(times.n_N.max()), 1.0), 10 / step], [0.01, 10.0]])


def maximize(times: Times, starts_S_P: Array, bounds_P_2: Array) -> tuple[Array, float]:
    """Maximum-likelihood parameters from any start, and the log-likelihood there."""
    from scipy.optimize import minimize

    box_P_2 = np.log(bounds_P_2)
    starts_S_P = np.log(np.clip(starts_S_P, *bounds_P_2.T))
    searches = [minimize(loss, start_P, (times,), "L-BFGS-B", jac=True, bounds=box_P_2) for start_P in starts_S_P]
    best = min(searches, key=lambda search: float(search.fun))
    return np.exp(best.x), -float(best.fun)
