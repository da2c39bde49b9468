"""Fits a learning curve and says whether the data identify it.

Arrays end in their axes: B bootstrap draws, C clusters, N values of experience, P parameters.
"""

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.bootstrap import MIN_CLUSTERS, cluster_weights, levels
from analysis.curves import Array, Curve, CurveParameter
from analysis.curves.exponential import Exponential
from analysis.identification import curve_blocker, data_blocker, parameter_blocker
from analysis.intervals import Interval
from analysis.likelihood import Counts, constant_log_likelihood, count_outcomes, maximize
from analysis.series import series_of
from hermes_lab.errors import ConfigError


class Estimate(NamedTuple):
    """One fitted parameter in natural units. `interval` is None where no bootstrap could be trusted."""

    name: str
    value: float
    interval: Interval | None
    identified: bool
    reason: str

    def __str__(self) -> str:
        spread = f" ({self.interval.low:.2g}-{self.interval.high:.2g})" if self.interval else ""
        return f"{self.name} {self.value:.2g}{spread}"


class Threshold(NamedTuple):
    """Tasks until success reaches a probability, infinite where it never does.

    `reached` is the share of bootstrap draws in which it does.
    """

    n: float
    interval: Interval
    reached: float


@dataclass(frozen=True, eq=False)
class Fit:
    """A curve fitted by maximum likelihood, in natural units.

    `draws_B_P` are its refits on resampled runs, with B = 0 where there are too few runs to resample.
    `evidence` is the AICc of a constant success rate less that of the curve. `reason` says why the fit is not
    identified; "" where it is.
    """

    curve: Curve
    parameters_P: Array
    draws_B_P: Array
    estimates: tuple[Estimate, ...]
    log_likelihood: float
    constant_log_likelihood: float
    evidence: float
    episodes: int
    runs: int
    identified: bool
    reason: str

    def predict(self, n_N: Array) -> Array:
        """Success probabilities at `n_N`."""
        return self.curve.value(self.parameters_P, n_N)

    def band(self, n_N: Array) -> Array:
        """The 95 % bootstrap band of `predict`, shape (2, N); only of an identified fit."""
        band: Array = np.quantile(self.curve.value(self.draws_B_P, n_N), levels(self.runs), axis=0)
        return band

    def threshold(self, probability: float) -> Threshold:
        """When success reaches `probability`; only of an identified fit."""
        draws_B = np.array([self.curve.threshold(draw_P, probability) for draw_P in self.draws_B_P])
        # No interpolation between draws: infinity less infinity is no number.
        lowest, highest = levels(self.runs)
        low = np.quantile(draws_B, lowest, method="lower")
        high = np.quantile(draws_B, highest, method="higher")
        n = self.curve.threshold(self.parameters_P, probability)
        return Threshold(n, Interval(float(low), float(high)), float(np.isfinite(draws_B).mean()))

    def report(self) -> dict[str, Any]:
        """The fit for JSON. Where it is not identified, its numbers are there but `identified` is false."""
        return {
            "identified": self.identified,
            "reason": self.reason,
            "parameters": {
                e.name: {"value": e.value, "interval": e.interval, "identified": e.identified} for e in self.estimates
            },
            "episodes": self.episodes,
            "runs": self.runs,
            "evidence": self.evidence,
        }

    def sentence(self) -> str:
        """The fit in one line."""
        if not self.identified:
            return f"not identified: {self.reason}"
        return f"{', '.join(map(str, self.estimates))}, over {self.runs} runs"


def fit_curve(
    n: npt.ArrayLike,
    success: npt.ArrayLike,
    cluster: Iterable[Hashable],
    curve: Curve | None = None,
    *,
    draws: int = 400,
    seed: int = 0,
) -> Fit:
    """Maximum likelihood over episodes, with a bootstrap over clusters (runs).

    `n`, `success` and `cluster` have an entry for each scored episode; `cluster` labels the run, within which
    outcomes depend on one another. The default curve is the exponential. Raises `ConfigError` where there is
    no episode.
    """
    curve = curve or Exponential()
    counts = count_outcomes(n, success, cluster)
    runs = len(counts.trials)
    if runs == 0:
        raise ConfigError("no scored episode to fit a curve to")
    pooled = counts.weighted(np.ones((1, runs)))
    starts_S_P = curve.starts(pooled.n_N, (pooled.successes / pooled.trials)[0])
    best = maximize(curve, pooled, starts_S_P)
    best_P, likelihood = best.parameters_B_P[0], float(best.log_likelihood_B[0])
    draws_B_P = _bootstrap(curve, counts, best_P, draws if runs >= MIN_CLUSTERS else 0, seed)

    episodes = int(pooled.trials.sum())
    constant = constant_log_likelihood(episodes, float(pooled.successes.sum()))
    evidence = aicc(constant, 1, episodes) - aicc(likelihood, len(best_P), episodes)
    blocker = data_blocker(episodes, pooled.n_N.size) or curve_blocker(
        runs, evidence, curve.degenerate(best_P, pooled.n_N)
    )
    estimates = tuple(
        _estimate(parameter, best_P[p], draws_B_P[:, p], runs, blocker) for p, parameter in enumerate(curve.parameters)
    )
    reason = blocker or "; ".join(estimate.reason for estimate in estimates if estimate.reason)
    return Fit(
        curve=curve,
        parameters_P=best_P,
        draws_B_P=draws_B_P,
        estimates=estimates,
        log_likelihood=likelihood,
        constant_log_likelihood=constant,
        evidence=evidence,
        episodes=episodes,
        runs=runs,
        identified=not reason,
        reason=reason,
    )


def fit_series(frame: pd.DataFrame, curve: Curve | None = None, *, draws: int = 400, seed: int = 0) -> dict[str, Fit]:
    """A fit for each series of `load_episodes` with scored episodes; a cluster is one lane of one run folder."""
    scored = frame[frame["success"].notna()]
    return {
        str(series): fit_curve(
            rows["experience"].to_numpy(),
            rows["success"].to_numpy(dtype=bool),
            list(zip(rows["run"], rows["lane"], strict=True)),
            curve,
            draws=draws,
            seed=seed,
        )
        for series, rows in scored.groupby(series_of(scored), sort=False)
    }


def aicc(log_likelihood: float, parameters: int, episodes: int) -> float:
    """Akaike's criterion corrected for small samples (Hurvich and Tsai 1989); infinite where undefined."""
    spare = episodes - parameters - 1
    if spare <= 0:
        return math.inf
    return 2 * parameters - 2 * log_likelihood + 2 * parameters * (parameters + 1) / spare


def _bootstrap(curve: Curve, counts: Counts, best_P: Array, draws: int, seed: int) -> Array:
    weights_B_C = cluster_weights(len(counts.trials), draws, seed)
    return maximize(curve, counts.weighted(weights_B_C), best_P[None]).parameters_B_P


def _estimate(parameter: CurveParameter, value: float, draws_B: Array, runs: int, blocker: str) -> Estimate:
    if not draws_B.size:
        return Estimate(parameter.name, float(value), None, False, blocker)
    low, high = np.quantile(draws_B, levels(runs))
    interval = Interval(float(low), float(high))
    reason = blocker or parameter_blocker(parameter, interval, runs)
    return Estimate(parameter.name, float(value), interval, not reason, reason)
