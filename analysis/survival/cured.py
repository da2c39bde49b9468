"""Likelihood of the discrete-time cure model, fitted by `hermes_lab.analysis.survival.hazard`.

A share `learnable` of the tasks is solved with the same probability `hazard` in every trial, the others never ("cured"
in Boag 1949, J. R. Stat. Soc. B 11:15). With q = 1 - hazard,

    P(solved at trial t) = learnable * hazard * q^(t - 1)
    P(unsolved after t)  = 1 - learnable + learnable * q^t
"""

from typing import NamedTuple

import numpy as np

from hermes_lab.analysis.curves import Array

EDGE = 1e-6
"""Distance of a hazard from 0 and 1."""
STARTS_S_P = np.array([[learnable, hazard] for learnable in (0.3, 0.7, 0.99) for hazard in (0.05, 0.3, 0.8)])
"""Starting values."""


class Counts(NamedTuple):
    """Tasks solved at each trial, and tasks censored after it (unsolved, not tried again); both (T,)."""

    solved_T: Array
    left_T: Array


def log_likelihood(parameters_P: Array, counts: Counts) -> float:
    """The log-likelihood at (learnable, hazard)."""
    learnable, hazard = parameters_P
    trial_T = _trials(counts)
    solved_T = np.log(learnable * hazard) + (trial_T - 1) * np.log1p(-hazard)
    return float(counts.solved_T @ solved_T + counts.left_T @ np.log(_unsolved(parameters_P, trial_T)))


def score(parameters_P: Array, counts: Counts) -> Array:
    """The gradient of `log_likelihood` with respect to (learnable, hazard)."""
    learnable, hazard = parameters_P
    trial_T = _trials(counts)
    before_T = (1 - hazard) ** (trial_T - 1)
    odds_T = counts.left_T / _unsolved(parameters_P, trial_T)
    solved = counts.solved_T.sum()
    by_learnable = solved / learnable - odds_T @ (1 - before_T * (1 - hazard))
    late = counts.solved_T @ (trial_T - 1)
    by_hazard = solved / hazard - late / (1 - hazard) - odds_T @ (learnable * trial_T * before_T)
    return np.array([by_learnable, by_hazard], dtype=np.float64)


def maximize(counts: Counts, starts_S_P: Array = STARTS_S_P) -> Array:
    """The maximum-likelihood (learnable, hazard) from any start; `learnable` may be 1."""
    from scipy.optimize import minimize

    searches = [
        minimize(
            lambda p: -log_likelihood(p, counts),
            start_P,
            jac=lambda p: -score(p, counts),
            method="L-BFGS-B",
            bounds=[(EDGE, 1.0), (EDGE, 1 - EDGE)],
            options={"ftol": 1e-13, "gtol": 1e-9},
        )
        for start_P in starts_S_P
    ]
    best: Array = min(searches, key=lambda search: float(search.fun)).x
    return best


def all_learnable(counts: Counts) -> float:
    """The maximum-likelihood hazard if every task is learnable: solved tasks per trial."""
    made = (counts.solved_T + counts.left_T) @ _trials(counts)
    return float(np.clip(counts.solved_T.sum() / made, EDGE, 1 - EDGE))


def solved_share(parameters_P: Array, trial_T: Array) -> Array:
    """The share of tasks solved by each trial."""
    learnable, hazard = parameters_P
    share_T: Array = -learnable * np.expm1(trial_T * np.log1p(-hazard))
    return share_T


def _unsolved(parameters_P: Array, trial_T: Array) -> Array:
    # Not 1 - solved_share, which cancels; and never 0, for the logarithm.
    learnable, hazard = parameters_P
    unsolved_T: Array = np.maximum(1 - learnable + learnable * (1 - hazard) ** trial_T, 1e-300)
    return unsolved_T


def _trials(counts: Counts) -> Array:
    return np.arange(1, counts.solved_T.size + 1, dtype=np.float64)
