"""Repeated trials until solved: the hazard per trial, and whether some tasks are never solved.

If only failed tasks are retried, the counts of successive trials are dependent: each trial works on what the earlier
ones left. The model (`hermes_lab.analysis.survival.cured`) assumes independent tasks with a common hazard. If hazards
differ, easy tasks are solved first and the hazard falls, which looks like a larger never-solved fraction.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hermes_lab.analysis.curves import Array
from hermes_lab.analysis.fitting.identification import MIN_EVIDENCE
from hermes_lab.analysis.fitting.result import aicc
from hermes_lab.analysis.stats.bootstrap import levels
from hermes_lab.analysis.stats.intervals import Z95, Interval
from hermes_lab.analysis.survival.cured import (
    EDGE,
    STARTS_S_P,
    Counts,
    all_learnable,
    log_likelihood,
    maximize,
    score,
    solved_share,
)
from hermes_lab.errors import ConfigError

MIN_SOLVED = 10
"""Fewest solved tasks; with fewer, intervals of the hazard are too wide."""
MIN_SEEN = 0.8
"""The share of learnable tasks that the trials must have solved; otherwise the rest is an extrapolation."""


class Parameter(NamedTuple):
    """An estimate and its 95 % intervals. `wald` is None if the estimate is on its bound."""

    value: float
    wald: Interval | None
    profile: Interval
    bootstrap: Interval | None


@dataclass(frozen=True, eq=False)
class HazardFit:
    """The maximum-likelihood cure model, and its rival, in which every task is learnable.

    `evidence` is the AICc of the rival minus that of the cure model. `reason` says why a never-solved fraction is not
    identified, or "". `rival` is the hazard if all tasks are learnable.
    """

    learnable: Parameter
    hazard: Parameter
    log_likelihood: float
    rival: float
    rival_log_likelihood: float
    evidence: float
    tasks: int
    solved: int
    trials: int
    reason: str

    @property
    def identified(self) -> bool:
        """Whether a never-solved fraction is identified."""
        return not self.reason

    def predict(self, trials_T: npt.ArrayLike) -> Array:
        """The share of tasks solved after this many trials."""
        return solved_share(np.array([self.learnable.value, self.hazard.value]), np.asarray(trials_T, np.float64))

    def to_dict(self) -> dict[str, Any]:
        """The fit for JSON. Numbers are included even if `identified` is false."""
        return {
            "identified": self.identified,
            "reason": self.reason,
            "parameters": {"learnable": self.learnable._asdict(), "hazard": self.hazard._asdict()},
            "log_likelihood": self.log_likelihood,
            "all_learnable": {"hazard": self.rival, "log_likelihood": self.rival_log_likelihood},
            "evidence": self.evidence,
            "tasks": self.tasks,
            "solved": self.solved,
            "trials": self.trials,
        }

    def sentence(self) -> str:
        """The fit in one line."""
        if self.reason:
            return f"no never-solved fraction identified: {self.reason}"
        parts = (("learnable", self.learnable), ("hazard", self.hazard))
        spread = ", ".join(f"{name} {p.value:.2g} ({p.profile.low:.2g}-{p.profile.high:.2g})" for name, p in parts)
        return f"{spread}, over {self.tasks} tasks"


def fit_cured_hazard(
    solved_per_trial: npt.ArrayLike,
    at_risk: int,
    left_per_trial: npt.ArrayLike | None = None,
    *,
    draws: int = 400,
    seed: int = 0,
) -> HazardFit:
    """Maximum likelihood for tasks that are retried until solved.

    `solved_per_trial`, shape (T,): newly solved at trial 1, 2, ... (not cumulative). `at_risk`: unsolved tasks before
    trial 1. `left_per_trial`, shape (T,): tasks censored after each trial, such as errored ones; those left after the
    last trial may be omitted. Intervals: Wald, profile likelihood and bootstrap over tasks. Raises `ConfigError` for
    impossible counts.
    """
    counts = _count(solved_per_trial, at_risk, left_per_trial)
    best_P, rival = maximize(counts), all_learnable(counts)
    likelihood, rival_likelihood = log_likelihood(best_P, counts), log_likelihood(np.array([1.0, rival]), counts)
    evidence = aicc(rival_likelihood, 1, at_risk) - aicc(likelihood, 2, at_risk)
    draws_B_P, wald_P = _bootstrap(counts, best_P, draws, seed), _wald(best_P, counts)
    learnable, hazard = (
        Parameter(float(best_P[p]), wald_P[p], _profile(best_P, counts, p), _spread(draws_B_P[:, p], at_risk))
        for p in range(2)
    )
    return HazardFit(
        learnable=learnable,
        hazard=hazard,
        log_likelihood=likelihood,
        rival=rival,
        rival_log_likelihood=rival_likelihood,
        evidence=evidence,
        tasks=at_risk,
        solved=int(counts.solved_T.sum()),
        trials=counts.solved_T.size,
        reason=_blocker(counts, best_P, evidence),
    )


def _count(solved_per_trial: npt.ArrayLike, at_risk: int, left_per_trial: npt.ArrayLike | None) -> Counts:
    solved_T = np.asarray(solved_per_trial, dtype=np.float64)
    if solved_T.ndim != 1 or not solved_T.size or not _are_counts(solved_T):
        raise ConfigError("solved_per_trial: give the newly solved tasks of each trial as non-negative integers")
    left_T = np.zeros_like(solved_T) if left_per_trial is None else np.array(left_per_trial, dtype=np.float64)
    if left_T.shape != solved_T.shape or not _are_counts(left_T):
        raise ConfigError(f"left_per_trial: give {solved_T.size} non-negative integers, one per trial")
    outcomes = float(solved_T.sum() + left_T.sum())
    if at_risk < max(outcomes, 1):
        raise ConfigError(f"at_risk: {outcomes:.0f} outcomes for only {at_risk} tasks")
    left_T[-1] += at_risk - outcomes
    return Counts(solved_T, left_T)


def _are_counts(values_T: Array) -> bool:
    return bool(np.isfinite(values_T).all() and (values_T >= 0).all() and (values_T % 1 == 0).all())


def _bootstrap(counts: Counts, best_P: Array, draws: int, seed: int) -> Array:
    """Refits on resampled tasks, shape (B, P). A task's outcome is the trial that solved it or after which it left."""
    outcomes, trials = np.concatenate(counts), counts.solved_T.size
    tasks = int(outcomes.sum())
    drawn_B = np.random.default_rng(seed).multinomial(tasks, outcomes / tasks, size=draws).astype(np.float64)
    starts_S_P = np.stack([best_P, STARTS_S_P[4]])
    refits = [maximize(Counts(drawn[:trials], drawn[trials:]), starts_S_P) for drawn in drawn_B]
    return np.array(refits).reshape(draws, 2)


def _spread(draws_B: Array, tasks: int) -> Interval | None:
    if not draws_B.size or tasks < 2:
        return None
    low, high = np.quantile(draws_B, levels(tasks))
    return Interval(float(low), float(high))


def _wald(best_P: Array, counts: Counts) -> list[Interval | None]:
    """From the curvature at the maximum, clipped to [0, 1]."""
    if not ((best_P > 2 * EDGE) & (best_P < 1 - 2 * EDGE)).all():
        return [None, None]
    step_P = 1e-4 * np.minimum(best_P, 1 - best_P)
    changes = [(score(best_P - axis, counts) - score(best_P + axis, counts)) / 2 for axis in np.diag(step_P)]
    variance_P = np.diag(np.linalg.inv(np.stack(changes) / step_P[:, None]))
    if not (variance_P > 0).all():
        return [None, None]
    reach_P = Z95 * np.sqrt(variance_P)
    low_P, high_P = np.clip([best_P - reach_P, best_P + reach_P], 0, 1)
    return [Interval(float(low), float(high)) for low, high in zip(low_P, high_P, strict=True)]


def _profile(best_P: Array, counts: Counts, p: int) -> Interval:
    """Where the log-likelihood, maximised over the other parameter, is within 1.92 of its maximum."""
    from scipy.optimize import minimize_scalar

    top = log_likelihood(best_P, counts)

    def fall(value: float) -> float:
        def loss(other: float) -> float:
            return -log_likelihood(np.array([value, other] if p == 0 else [other, value]), counts)

        inside = minimize_scalar(loss, bounds=(EDGE, 1 - EDGE), method="bounded", options={"xatol": 1e-9})
        return 2 * (top + min(float(inside.fun), loss(1 - EDGE))) - Z95**2

    value = float(best_P[p])
    return Interval(_end(fall, EDGE, value, 0.0), _end(fall, 1 - EDGE, value, 1.0))


def _end(fall: Callable[[float], float], edge: float, value: float, bound: float) -> float:
    """Where the drop is reached between the estimate and the edge; the bound if it never is."""
    from scipy.optimize import brentq

    if abs(edge - value) <= 2 * EDGE or fall(edge) <= 0:
        return bound
    return float(brentq(fall, edge, value, xtol=1e-8))


def _blocker(counts: Counts, best_P: Array, evidence: float) -> str:
    solved = int(counts.solved_T.sum())
    if solved < MIN_SOLVED:
        return f"fewer than {MIN_SOLVED} solved tasks ({solved})"
    # Not "less than": the difference of infinite criteria is NaN.
    if not evidence >= MIN_EVIDENCE:
        return f"a model with all tasks learnable fits as well (AICc difference {evidence:.1f})"
    seen = -float(np.expm1(counts.solved_T.size * np.log1p(-best_P[1])))
    if seen < MIN_SEEN:
        return f"the trials cover {100 * seen:.0f} % of the learnable tasks"
    return ""
