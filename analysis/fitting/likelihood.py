"""The binomial likelihood of a curve, and its maximum.

Array names end in their axes: B sets of counts, C clusters, K searches (a set of counts from one start), N values of
experience, P parameters, S starts.
"""

from collections.abc import Hashable, Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hermes_lab.analysis.curves import Array, Curve

_ITERATIONS = 500
_TOLERANCE = 1e-8
"""Convergence tolerance on the log-likelihood: parameters are within 1e-4 standard errors."""
EXACT = 1e-13
"""Tightest tolerance: the rounding error of the log-likelihood."""
_BLOCK = 1 << 15
"""Block size (searches x values of experience), chosen so that arrays stay in the CPU cache."""


class Counts(NamedTuple):
    """Sufficient statistics: outcomes at each value of experience; `trials` is (..., N)."""

    n_N: Array
    trials: Array
    successes: Array

    def weighted(self, weights_B_C: Array) -> "Counts":
        """B weighted sums of counts by cluster, shape (C, N)."""
        return Counts(self.n_N, weights_B_C @ self.trials, weights_B_C @ self.successes)

    def pooled(self) -> "Counts":
        """The sum of counts by cluster, (C, N) -> (1, N)."""
        return self.weighted(np.ones((1, len(self.trials))))

    def rows(self, which: npt.NDArray[np.intp] | slice) -> "Counts":
        """A subset of the sets."""
        return Counts(self.n_N, self.trials[which], self.successes[which])


class Prior(NamedTuple):
    """Independent normal priors on the unbounded scale; each field is (P,)."""

    mean_P: Array
    precision_P: Array


class Derivatives(NamedTuple):
    """A log-likelihood, its gradient (the score) and its expected curvature (the Fisher information)."""

    value: Array
    score: Array
    information: Array


class Maximum(NamedTuple):
    """Maximum-likelihood parameters in natural units, and the log-likelihood there."""

    parameters_B_P: Array
    log_likelihood_B: Array


def count_outcomes(n: npt.ArrayLike, success: npt.ArrayLike, cluster: Iterable[Hashable]) -> Counts:
    """Counts by cluster, shape (C, N), from three sequences with one entry per episode."""
    n_N, column = np.unique(np.asarray(n, dtype=np.float64), return_inverse=True)
    labels: dict[Hashable, int] = {}
    row = np.array([labels.setdefault(label, len(labels)) for label in cluster], dtype=np.intp)
    trials_C_N, successes_C_N = np.zeros((2, len(labels), n_N.size))
    np.add.at(trials_C_N, (row, column), 1.0)
    np.add.at(successes_C_N, (row, column), np.asarray(success, dtype=np.float64))
    return Counts(n_N, trials_C_N, successes_C_N)


def derivatives(curve: Curve, theta: Array, counts: Counts, prior: Prior | None = None) -> Derivatives:
    """The log-likelihood and its derivatives on the unbounded scale, for `theta` (..., P) and counts (..., N).

    With a `prior` its log-density is added, up to a constant.
    """
    parameters = natural(curve, theta)
    p = curve.value(parameters, counts.n_N)
    failures = counts.trials - counts.successes
    value = (counts.successes * np.log(p) + failures * np.log1p(-p)).sum(axis=-1)
    slope = curve.gradient(parameters, counts.n_N)
    certainty = 1 / (p * (1 - p))
    residual = (counts.successes - counts.trials * p) * certainty
    weighted = np.swapaxes(slope, -1, -2) * (counts.trials * certainty)[..., None, :]
    chain = _chain(curve, parameters)
    score = (residual[..., None, :] @ slope)[..., 0, :] * chain
    information = (weighted @ slope) * (chain[..., None, :] * chain[..., None])
    if prior is not None:
        away = theta - prior.mean_P
        value = value - 0.5 * (prior.precision_P * away**2).sum(axis=-1)
        score = score - prior.precision_P * away
        information = information + np.diag(prior.precision_P)
    return Derivatives(value, score, information)


def constant_log_likelihood(trials: float, successes: float) -> float:
    """The log-likelihood of one success rate at every n."""
    if successes in (0, trials):
        return 0.0
    share = successes / trials
    return float(successes * np.log(share) + (trials - successes) * np.log1p(-share))


def maximize(
    curve: Curve,
    counts: Counts,
    starts: Array,
    *,
    held: Iterable[str] = (),
    prior: Prior | None = None,
    tolerance: float = _TOLERANCE,
) -> Maximum:
    """Maximum likelihood for B sets of counts, shape (B, N), at once: the best result from any start.

    `starts` are (S, P), or (B, S, P) for separate starts per set; parameters named in `held` stay fixed. With a
    `prior` the result is the posterior mode and the penalised log-likelihood.

    Fisher scoring with Marquardt damping, projected on the curve's bounds; a step is taken only if it improves the
    likelihood. Searches advance together in blocks and leave once converged, which makes a bootstrap as cheap as a
    few fits.
    """
    low_P, high_P = unbounded(curve, curve.bounds(counts.n_N).T)
    still_P = np.array([p.name in set(held) or p.kind == "changepoint" for p in curve.parameters])
    theta = unbounded(curve, np.broadcast_to(starts, (len(counts.trials), *starts.shape[-2:])))
    theta_K_P = np.where(still_P, theta, np.clip(theta, low_P, high_P)).reshape(-1, theta.shape[-1])
    owner_K = np.repeat(np.arange(len(theta)), theta.shape[1])
    value_K = np.empty(len(theta_K_P))
    size = max(_BLOCK // counts.n_N.size, 1)
    for first in range(0, len(theta_K_P), size):
        block = slice(first, first + size)
        theta_K_P[block], value_K[block] = _search(
            curve, counts.rows(owner_K[block]), theta_K_P[block], (low_P, high_P), still_P, prior, tolerance
        )
    best_B = value_K.reshape(theta.shape[:2]).argmax(axis=-1) + np.arange(len(theta)) * theta.shape[1]
    return Maximum(natural(curve, theta_K_P[best_B]), value_K[best_B])


def _search(
    curve: Curve,
    counts: Counts,
    start_K_P: Array,
    bounds: tuple[Array, Array],
    still_P: npt.NDArray[np.bool_],
    prior: Prior | None,
    tolerance: float,
) -> tuple[Array, Array]:
    """The end point of each search and the log-likelihood there. `counts` has one row per search."""
    found_K_P, value_K = start_K_P.copy(), np.empty(len(start_K_P))
    active = np.arange(len(start_K_P))
    theta, at = start_K_P, derivatives(curve, start_K_P, counts, prior)
    damping = np.full(len(active), 1e-3)
    for _ in range(_ITERATIONS):
        step, expected = _step(theta, at, damping, bounds, still_P)
        proposal = np.where(still_P, theta, np.clip(theta + step, *bounds))
        there = derivatives(curve, proposal, counts, prior)
        gain = there.value - at.value
        taken = gain > 0
        theta = np.where(taken[:, None], proposal, theta)
        at = Derivatives(*(_where(taken, new, old) for new, old in zip(there, at, strict=True)))
        # Damping follows the ratio of actual to predicted gain (Nielsen 1999); without a gain the step shrinks.
        truth = gain / np.maximum(expected, 1e-300)
        damping = np.where(taken, damping * np.clip(1 - (2 * truth - 1) ** 3, 1 / 3, 2), damping * 10)
        damping = damping.clip(min=1e-9)
        open_ = (np.maximum(gain, expected) >= tolerance) & (damping < 1e12)
        if not open_.all():
            found_K_P[active], value_K[active] = theta, at.value
            active, theta, damping = active[open_], theta[open_], damping[open_]
            at, counts = Derivatives(*(part[open_] for part in at)), counts.rows(open_.nonzero()[0])
            if not active.size:
                break
    found_K_P[active], value_K[active] = theta, at.value
    return found_K_P, value_K


def _step(
    theta: Array, at: Derivatives, damping: Array, bounds: tuple[Array, Array], still_P: npt.NDArray[np.bool_]
) -> tuple[Array, Array]:
    """The damped step and its predicted gain; fixed parameters and those at an active bound are left out."""
    pressed = still_P | ((theta <= bounds[0]) & (at.score < 0)) | ((theta >= bounds[1]) & (at.score > 0))
    score = np.where(pressed, 0.0, at.score)
    information = np.where(pressed[:, None, :] | pressed[:, :, None], 0.0, at.information)
    p = np.arange(theta.shape[-1])
    curvature = information[:, p, p]
    information[:, p, p] = curvature * (1 + damping[:, None]) + np.where(curvature > 0, 1e-12, 1.0)
    step: Array = np.linalg.solve(information, score[..., None])[..., 0]
    return step, 0.5 * (score * step).sum(axis=-1)


def _where(taken: npt.NDArray[np.bool_], new: Array, old: Array) -> Array:
    return np.where(taken.reshape(-1, *[1] * (new.ndim - 1)), new, old)


def natural(curve: Curve, theta: Array) -> Array:
    """The unbounded scale, shape (..., P), to natural units."""
    logits, logarithms = _kinds(curve)
    units: Array = np.where(logits, 1 / (1 + np.exp(-theta)), theta)
    np.exp(theta, out=units, where=np.broadcast_to(logarithms, theta.shape))
    return units


def unbounded(curve: Curve, parameters: Array) -> Array:
    """Natural units, shape (..., P), to the unbounded scale: logit, logarithm or identity."""
    logits, logarithms = _kinds(curve)
    theta: Array = np.array(parameters / np.where(logits, 1 - parameters, 1.0))
    np.log(theta, out=theta, where=np.broadcast_to(logits | logarithms, theta.shape))
    return theta


def _chain(curve: Curve, parameters: Array) -> Array:
    """The derivative of natural units with respect to the unbounded scale."""
    logits, logarithms = _kinds(curve)
    return np.where(logits, parameters * (1 - parameters), np.where(logarithms, parameters, 1.0))


def _kinds(curve: Curve) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Masks of the parameters on the logit and the log scale."""
    kinds = np.array([parameter.kind for parameter in curve.parameters])
    return kinds == "probability", kinds == "positive"
