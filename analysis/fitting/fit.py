"""Fits a learning curve and says whether the data identify it.

Arrays end in their axes: B bootstrap draws, C clusters, N values of experience, P parameters.
"""

import math
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd

from hermes_lab.analysis.curves import Array, Curve, CurveParameter
from hermes_lab.analysis.curves.exponential import Exponential
from hermes_lab.analysis.data.series import clusters_of, plural, series_of
from hermes_lab.analysis.fitting.identification import curve_blocker, data_blocker, parameter_blocker
from hermes_lab.analysis.fitting.likelihood import EXACT, Counts, constant_log_likelihood, count_outcomes, maximize
from hermes_lab.analysis.fitting.profile import profile_interval
from hermes_lab.analysis.fitting.wald import wald_interval
from hermes_lab.analysis.stats.bootstrap import MIN_CLUSTERS, cluster_weights, levels
from hermes_lab.analysis.stats.intervals import Interval
from hermes_lab.errors import ConfigError

Method = Literal["bootstrap", "profile", "wald"]
"""How intervals of parameters are made."""


class Estimate(NamedTuple):
    """One fitted parameter in natural units. `interval` is None where runs are too few for one."""

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

    probability: float
    n: float
    interval: Interval
    reached: float

    def sentence(self) -> str:
        """The answer in one line."""
        level, share = f"{100 * self.probability:.0f} %", f"reached in {100 * self.reached:.0f} % of the draws"
        low, high = (f"{end:.0f}" if math.isfinite(end) else "never" for end in self.interval)
        when = f"after {self.n:.0f} tasks" if math.isfinite(self.n) else "is never reached"
        return f"{level} {when} ({low}-{high}), {share}"


@dataclass(frozen=True, eq=False)
class Fit:
    """A curve fitted by maximum likelihood, in natural units.

    `counts` are the outcomes of each cluster, shape (C, N): `runs` of them, which `over` names. `draws_B_P` are its
    refits on resampled clusters, with B = 0 where there are too few to resample. `evidence` is the AICc of a constant
    success rate less that of the curve. `method` is of the estimates' intervals; bands and thresholds are always the
    bootstrap's. `reason` says why the fit is not identified; "" where it is.
    """

    curve: Curve
    counts: Counts
    parameters_P: Array
    draws_B_P: Array
    estimates: tuple[Estimate, ...]
    log_likelihood: float
    constant_log_likelihood: float
    evidence: float
    episodes: int
    runs: int
    over: str
    method: Method
    reason: str

    @property
    def identified(self) -> bool:
        """Whether the curve may be spoken of."""
        return not self.reason

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
        return Threshold(probability, n, Interval(float(low), float(high)), float(np.isfinite(draws_B).mean()))

    def report(self) -> dict[str, Any]:
        """The fit for JSON. Where it is not identified, its numbers are there but `identified` is false."""
        return {
            "curve": self.curve.name,
            "identified": self.identified,
            "reason": self.reason,
            "parameters": {
                e.name: {"value": e.value, "interval": e.interval, "identified": e.identified} for e in self.estimates
            },
            "episodes": self.episodes,
            "runs": self.runs,
            "over": self.over,
            "intervals": self.method,
            "evidence": self.evidence,
        }

    def sentence(self) -> str:
        """The fit in one line."""
        if not self.identified:
            return f"not identified: {self.reason}"
        told = f"{', '.join(map(str, self.estimates))}, over {self.over}"
        return told if self.method == "bootstrap" else f"{told}, {self.method} intervals"


def refit(curve: Curve, counts: Counts, weights_B_C: Array, starts_S_P: Array) -> Array:
    """The parameters, shape (B, P), with each cluster as often as a draw has it; each draw by itself. A thousandth of a
    standard error is enough."""
    return maximize(curve, counts.weighted(weights_B_C), starts_S_P, tolerance=1e-6).parameters_B_P


Refit = Callable[[Curve, Counts, Array, Array], Array]
"""What `refit` does, wherever it does it."""


def fit_curve(
    n: npt.ArrayLike,
    success: npt.ArrayLike,
    cluster: Iterable[Hashable],
    curve: Curve | None = None,
    *,
    draws: int = 400,
    seed: int = 0,
    over: str = "",
    interval: Method = "bootstrap",
    refit: Refit = refit,
) -> Fit:
    """Maximum likelihood over episodes, with intervals over clusters (runs).

    `n`, `success` and `cluster` have an entry for each scored episode; `cluster` labels the run, within which
    outcomes depend on one another, and `over` names the clusters (`20 worlds`). The default curve is the exponential.
    `refit` does the refits of the bootstrap, here or elsewhere.
    Raises `ConfigError` where there is no episode, and for an `interval` that the curve does not have.
    """
    if interval not in get_args(Method):
        raise ConfigError(f"interval {interval!r}: there are {', '.join(get_args(Method))}")
    curve = curve or Exponential()
    counts = count_outcomes(n, success, cluster)
    runs = len(counts.trials)
    if runs == 0:
        raise ConfigError("no scored episode to fit a curve to")
    pooled = counts.pooled()
    starts_S_P = curve.starts(pooled.n_N, (pooled.successes / pooled.trials)[0])
    best = maximize(curve, pooled, starts_S_P, tolerance=EXACT)
    best_P, likelihood = best.parameters_B_P[0], float(best.log_likelihood_B[0])
    jumps = any(parameter.kind == "changepoint" for parameter in curve.parameters)
    draws_B_P = _bootstrap(curve, counts, starts_S_P if jumps else best_P[None], draws, seed, refit)

    episodes = int(pooled.trials.sum())
    constant = constant_log_likelihood(episodes, float(pooled.successes.sum()))
    evidence = aicc(constant, 1, episodes) - aicc(likelihood, degrees(curve), episodes)
    flat = len(best_P) == 1
    blocker = data_blocker(episodes, pooled.n_N.size, len(best_P)) or curve_blocker(
        runs, math.inf if flat else evidence, curve.degenerate(best_P, pooled.n_N)
    )
    if not draws:
        blocker = blocker or "no bootstrap draws, so no band and no threshold"
    fit = Fit(
        curve=curve,
        counts=counts,
        parameters_P=best_P,
        draws_B_P=draws_B_P,
        estimates=(),
        log_likelihood=likelihood,
        constant_log_likelihood=constant,
        evidence=evidence,
        episodes=episodes,
        runs=runs,
        over=over or plural(runs, "run"),
        method=interval,
        reason=blocker,
    )
    estimates = tuple(_estimate(fit, parameter) for parameter in curve.parameters)
    reason = blocker or "; ".join(estimate.reason for estimate in estimates if estimate.reason)
    return replace(fit, estimates=estimates, reason=reason)


class Episodes(NamedTuple):
    """The scored episodes of one fit, an entry each; `cluster` and `over` are those of `series.clusters_of`."""

    n: Array
    success: npt.NDArray[np.bool_]
    cluster: list[Hashable]
    over: str

    def fit(
        self,
        curve: Curve | None = None,
        *,
        draws: int = 400,
        seed: int = 0,
        interval: Method = "bootstrap",
        refit: Refit = refit,
    ) -> Fit:
        """As `fit_curve`."""
        of = (self.n, self.success, self.cluster)
        return fit_curve(*of, curve, draws=draws, seed=seed, over=self.over, interval=interval, refit=refit)


def scored_episodes(frame: pd.DataFrame, by: str = "series", phase: str = "learn") -> dict[str, Episodes]:
    """The scored episodes of each series of `load_episodes`, or of each series and each value of the column `by`."""
    # In the log lanes stand as they happened to finish; a seeded bootstrap is the same for the same outcomes.
    scored = frame[frame["success"].notna() & (frame["phase"] == phase)].sort_values("lane", kind="stable")
    names = series_of(scored)
    if by != "series":
        names = names + ", " + scored[by].astype(str)
    return {
        str(name): Episodes(
            rows["experience"].to_numpy(dtype=np.float64),
            rows["success"].to_numpy(dtype=bool),
            *clusters_of(rows)[:2],
        )
        for name, rows in scored.groupby(names, sort=False)
    }


def fit_series(
    frame: pd.DataFrame,
    curve: Curve | None = None,
    *,
    by: str = "series",
    phase: str = "learn",
    draws: int = 400,
    seed: int = 0,
) -> dict[str, Fit]:
    """A fit for each of `scored_episodes`."""
    found = scored_episodes(frame, by, phase)
    return {name: episodes.fit(curve, draws=draws, seed=seed) for name, episodes in found.items()}


def aicc(log_likelihood: float, parameters: int, episodes: int) -> float:
    """Akaike's criterion corrected for small samples (Hurvich and Tsai 1989); infinite where undefined."""
    spare = episodes - parameters - 1
    if spare <= 0:
        return math.inf
    return 2 * parameters - 2 * log_likelihood + 2 * parameters * (parameters + 1) / spare


def degrees(curve: Curve) -> int:
    """The parameters that AICc counts. A place counts for three, as the search for it finds more than a parameter
    would (Ninomiya 2005, Stat. Probab. Lett. 72:237).
    """
    return sum(3 if parameter.kind == "changepoint" else 1 for parameter in curve.parameters)


def _bootstrap(curve: Curve, counts: Counts, starts_S_P: Array, draws: int, seed: int, refit: Refit) -> Array:
    """Refits on resampled runs, none where the runs are too few."""
    runs = len(counts.trials)
    weights_B_C = cluster_weights(runs, draws if runs >= MIN_CLUSTERS else 0, seed)
    return refit(curve, counts, weights_B_C, starts_S_P)


def _estimate(fit: Fit, parameter: CurveParameter) -> Estimate:
    place = fit.curve.parameters.index(parameter)
    value = float(fit.parameters_P[place])
    found = _interval(fit, place) if fit.runs >= MIN_CLUSTERS else None
    if found is None:
        return Estimate(parameter.name, value, None, False, fit.reason)
    reason = fit.reason or parameter_blocker(parameter, found, fit.over)
    return Estimate(parameter.name, value, found, not reason, reason)


def _interval(fit: Fit, place: int) -> Interval | None:
    name = fit.curve.parameters[place].name
    if fit.method == "profile":
        return profile_interval(fit, name)
    if fit.method == "wald":
        return wald_interval(fit, name)
    if not len(fit.draws_B_P):
        return None
    low, high = np.quantile(fit.draws_B_P[:, place], levels(fit.runs))
    return Interval(float(low), float(high))
