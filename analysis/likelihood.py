"""The binomial likelihood of a curve, and its maximum.

Arrays end in their axes: B sets of counts, C clusters, S starts, N values of experience, P parameters.
"""

from collections.abc import Hashable, Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from analysis.curves import Array, Curve

_ITERATIONS = 200
_TOLERANCE = 1e-8
"""A change in log-likelihood that is none."""


class Counts(NamedTuple):
    """Outcomes at each value of experience, all that the likelihood needs; `trials` is (..., N)."""

    n_N: Array
    trials: Array
    successes: Array

    def weighted(self, weights_B_C: Array) -> "Counts":
        """Of counts by cluster, shape (C, N), B sums that take each cluster as often as its weight says."""
        return Counts(self.n_N, weights_B_C @ self.trials, weights_B_C @ self.successes)


class Derivatives(NamedTuple):
    """A log-likelihood, its gradient (the score) and its expected curvature (the Fisher information)."""

    value: Array
    score: Array
    information: Array


class Maximum(NamedTuple):
    """Parameters of highest likelihood in natural units, and the log-likelihood there."""

    parameters_B_P: Array
    log_likelihood_B: Array


def count_outcomes(n: npt.ArrayLike, success: npt.ArrayLike, cluster: Iterable[Hashable]) -> Counts:
    """The counts of each cluster, shape (C, N), of episodes given as three sequences of one length."""
    n_N, column = np.unique(np.asarray(n, dtype=np.float64), return_inverse=True)
    labels: dict[Hashable, int] = {}
    row = np.array([labels.setdefault(label, len(labels)) for label in cluster], dtype=np.intp)
    trials_C_N, successes_C_N = np.zeros((2, len(labels), n_N.size))
    np.add.at(trials_C_N, (row, column), 1.0)
    np.add.at(successes_C_N, (row, column), np.asarray(success, dtype=np.float64))
    return Counts(n_N, trials_C_N, successes_C_N)


def derivatives(curve: Curve, theta: Array, counts: Counts) -> Derivatives:
    """The log-likelihood by parameters on the unbounded scale: (..., P) goes with counts of (..., N)."""
    parameters = natural(curve, theta)
    p = curve.value(parameters, counts.n_N)
    failures = counts.trials - counts.successes
    value = (counts.successes * np.log(p) + failures * np.log1p(-p)).sum(axis=-1)
    chain = np.where(_probabilities(curve), parameters * (1 - parameters), parameters)
    slope = curve.gradient(parameters, counts.n_N) * chain[..., None, :]
    residual = (counts.successes - counts.trials * p) / (p * (1 - p))
    weight = counts.trials / (p * (1 - p))
    score = (residual[..., None, :] @ slope)[..., 0, :]
    return Derivatives(value, score, np.swapaxes(slope * weight[..., None], -1, -2) @ slope)


def constant_log_likelihood(trials: float, successes: float) -> float:
    """The log-likelihood of one success rate at every n."""
    if successes in (0, trials):
        return 0.0
    share = successes / trials
    return float(successes * np.log(share) + (trials - successes) * np.log1p(-share))


def maximize(curve: Curve, counts: Counts, starts_S_P: Array) -> Maximum:
    """Maximum likelihood for B sets of counts, shape (B, N), at once: the best reached from any start.

    Fisher scoring with Levenberg's damping, projected on the curve's bounds: a step is taken only where it
    gains, so that the likelihood never falls. All problems advance together, which makes a bootstrap as cheap
    as a few fits.
    """
    low_P, high_P = unbounded(curve, curve.bounds(counts.n_N).T)
    counts_B_1_N = Counts(counts.n_N, counts.trials[:, None], counts.successes[:, None])
    theta = np.clip(unbounded(curve, starts_S_P), low_P, high_P)
    theta = np.broadcast_to(theta, (len(counts.trials), *starts_S_P.shape))
    at = derivatives(curve, theta, counts_B_1_N)
    damping = np.ones(theta.shape[:-1])
    settled = np.zeros(theta.shape[:-1], dtype=np.bool_)
    for _ in range(_ITERATIONS):
        proposal = np.clip(theta + _step(theta, at, damping, low_P, high_P), low_P, high_P)
        there = derivatives(curve, proposal, counts_B_1_N)
        gain = there.value - at.value
        taken = gain > 0
        theta = np.where(taken[..., None], proposal, theta)
        at = Derivatives(
            np.where(taken, there.value, at.value),
            np.where(taken[..., None], there.score, at.score),
            np.where(taken[..., None, None], there.information, at.information),
        )
        # Without a gain the damping grows, and the step shrinks until it changes nothing.
        damping = np.where(taken, damping / 10, damping * 10).clip(min=1e-6)
        settled |= np.abs(gain) < _TOLERANCE
        if settled.all():
            break
    best_B = at.value.argmax(axis=-1)
    rows_B = np.arange(len(best_B))
    return Maximum(natural(curve, theta[rows_B, best_B]), at.value[rows_B, best_B])


def _step(theta: Array, at: Derivatives, damping: Array, low_P: Array, high_P: Array) -> Array:
    """The damped step; a parameter that is pressed against its bound is left out of the equations."""
    pressed = ((theta <= low_P) & (at.score < 0)) | ((theta >= high_P) & (at.score > 0))
    score = np.where(pressed, 0.0, at.score)
    information = np.where(pressed[..., None, :] | pressed[..., None], 0.0, at.information)
    damped = information + damping[..., None, None] * np.eye(theta.shape[-1])
    step: Array = np.linalg.solve(damped, score[..., None])[..., 0]
    return step


def natural(curve: Curve, theta: Array) -> Array:
    """The unbounded scale, shape (..., P), to natural units."""
    return np.where(_probabilities(curve), 1 / (1 + np.exp(-theta)), np.exp(theta))


def unbounded(curve: Curve, parameters: Array) -> Array:
    """Natural units, shape (..., P), to the unbounded scale: a logit or a logarithm."""
    odds: Array = parameters / np.where(_probabilities(curve), 1 - parameters, 1.0)
    return np.log(odds)


def _probabilities(curve: Curve) -> npt.NDArray[np.bool_]:
    return np.array([parameter.kind == "probability" for parameter in curve.parameters])
