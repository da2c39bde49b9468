"""Fits a learning curve and checks whether the data identify it.

Array names end in their axes: B bootstrap draws, C clusters, N values of experience, P parameters.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd

from hermes_lab.analysis.curves import Array, Curve, CurveParameter
from hermes_lab.analysis.curves.exponential import Exponential
from hermes_lab.analysis.data.series import clusters_of, series_of
from hermes_lab.analysis.fitting.identification import curve_blocker, data_blocker, parameter_blocker
from hermes_lab.analysis.fitting.likelihood import EXACT, Counts, constant_log_likelihood, count_outcomes, maximize
from hermes_lab.analysis.fitting.profile import profile_interval
from hermes_lab.analysis.fitting.result import Estimate, Fit, Method, aicc, degrees
from hermes_lab.analysis.fitting.wald import covariance, wald_interval
from hermes_lab.analysis.stats.bootstrap import MIN_CLUSTERS, cluster_weights, enough_draws, levels
from hermes_lab.analysis.stats.intervals import Interval
from hermes_lab.errors import ConfigError
from hermes_lab.text.counted import counted


def refit(curve: Curve, counts: Counts, weights_B_C: Array, starts_S_P: Array) -> Array:
    """Parameters of each bootstrap draw, shape (B, P), given how often it has each cluster. Converges to about a
    thousandth of a standard error."""
    return maximize(curve, counts.weighted(weights_B_C), starts_S_P, tolerance=1e-6).parameters_B_P


MIN_DRAWS = 200
"""The fewest bootstrap draws that a user can ask for."""
_ALIKE = 0.2
"""The dispersion below which runs are nearly copies of each other."""

OUT_OF_RANGE = "no scored episode in the range of experience that all lanes reached"
"""Why a domain has no curve."""

Refit = Callable[[Curve, Counts, Array, Array], Array]
"""The signature of `refit`, e.g. for a distributed version."""


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
    """Maximum likelihood over episodes, with intervals over clusters (lanes).

    `n`, `success` and `cluster` have one entry per scored episode; outcomes within a cluster are dependent, and `over`
    describes the clusters (`20 worlds`). The default curve is the exponential. `refit` runs the bootstrap refits;
    there are more than `draws` if the intervals of few clusters need them.
    Raises `ConfigError` without episodes, and for an `interval` method that the curve does not support.
    """
    if interval not in get_args(Method):
        raise ConfigError(f"interval {interval!r}: choose one of {', '.join(get_args(Method))}")
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
        over=over or counted(runs, "lane"),
        method=interval,
        reason=blocker,
    )
    estimates = tuple(_estimate(fit, parameter) for parameter in curve.parameters)
    reason = blocker or "; ".join(estimate.reason for estimate in estimates if estimate.reason)
    return replace(fit, estimates=estimates, reason=reason)


class Episodes(NamedTuple):
    """The scored episodes of one fit, one entry each; `cluster` and `over` come from `series.clusters_of`.

    `limits` is the range of experience that all lanes reached, in words; "" if that is all of it. `over` ends with it.
    """

    n: Array
    success: npt.NDArray[np.bool_]
    cluster: list[Hashable]
    over: str
    limits: str = ""

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
        fit = fit_curve(*of, curve, draws=draws, seed=seed, over=self.over, interval=interval, refit=refit)
        return replace(fit, limits=self.limits)


def scored_episodes(frame: pd.DataFrame, by: str = "series", phase: str = "learn") -> dict[str, Episodes]:
    """The scored episodes of each series of `load_episodes`, or of each series and value of column `by`.

    Only those at experience that all lanes of the series reached: if weak lanes end early, the mean of the others is
    higher, and that is no learning. `over` then ends with the range. Raises `ConfigError` for lanes that share no
    experience.
    """
    # The log has lanes in the order they finished; sorting makes a seeded bootstrap reproducible.
    rows = frame[frame["phase"] == phase].sort_values("lane", kind="stable")
    rows = rows.assign(series=series_of(rows)) if len(rows) else rows.assign(series="")
    found = {}
    for _, of_series in rows.groupby("series", sort=False):
        shared, limits = in_common(of_series)
        scored = shared[shared["success"].notna()]
        names = scored["series"] if by == "series" else scored["series"] + ", " + scored[by].astype(str)
        for name, chosen in scored.groupby(names, sort=False):
            labels, over, _ = clusters_of(chosen)
            n, success = chosen["experience"].to_numpy(dtype=np.float64), chosen["success"].to_numpy(dtype=bool)
            found[str(name)] = Episodes(n, success, labels, over + limits, limits)
    return found


def refuse_other_fits(frame: pd.DataFrame, fits: Mapping[str, Fit], phase: str) -> None:
    """Raises `ConfigError` for a fit of other episodes than those of its series in the frame: of another phase, run or
    grouping."""
    held = scored_episodes(frame, phase=phase)
    for name, fit in fits.items():
        if name not in held:
            raise ConfigError(f"fits: the frame has no series {name!r}; it has {', '.join(sorted(held))}")
        if fit.episodes != len(held[name].n) or set(fit.counts.n_N.tolist()) != set(held[name].n.tolist()):
            raise ConfigError(f"fits: {name!r} was fitted to other episodes than those of the frame; fit this frame")


def refuse_few_draws(draws: int) -> None:
    """Raises `ConfigError` for a number of bootstrap draws that makes intervals too narrow; 0 means none."""
    if draws and draws < MIN_DRAWS:
        raise ConfigError(f"draws: give at least {MIN_DRAWS}, or 0 for no intervals, not {draws}")


def refuse_mixed(frame: pd.DataFrame) -> None:
    """Raises `ConfigError` for several suites, which would be one series. A study pools its suites on purpose."""
    if "suite" in frame and frame["suite"].nunique() > 1:
        suites = ", ".join(sorted(frame["suite"].unique()))
        raise ConfigError(
            f"fit: these are episodes of several suites, {suites}; fit each alone, or by domain or family"
        )


def in_common(rows: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """The rows of one series at experience that all of its lanes reached, scored or not, and that range in words.

    The words are "" if that is all of them. Raises `ConfigError` for lanes that share no experience.
    """
    spans = rows.groupby(["run", "lane"])["experience"].agg(["min", "max"])
    first, last, longest = spans["min"].max(), spans["max"].min(), spans["max"].max()
    if (first, last) == (spans["min"].min(), longest):
        return rows, ""
    if first > last:
        raise ConfigError(
            f"fit: one lane begins at {first:g} tasks seen, another one ends at {last:g}; fit their runs one by one"
        )
    words = f" at {first:g} to {last:g} tasks seen, which all have (some have {longest:g})"
    return rows[rows["experience"].between(first, last)], words


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


def _bootstrap(curve: Curve, counts: Counts, starts_S_P: Array, draws: int, seed: int, refit: Refit) -> Array:
    """Refits on resampled runs: more than `draws` if few runs need them, none if there are too few runs."""
    runs = len(counts.trials)
    wanted = max(draws, enough_draws(runs)) if draws and runs >= MIN_CLUSTERS else 0
    weights_B_C = cluster_weights(runs, wanted, seed)
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
    """The interval by the fit's method; a probability's end on a bound of the search becomes 0 or 1.

    Runs that hardly differ, such as 20 that all fail their first task, have no spread to resample. Then the interval
    is at least as wide as that of independent episodes, by profile likelihood.
    """
    parameter = fit.curve.parameters[place]
    found = _by_method(fit, place)
    if found is None or parameter.kind == "changepoint":
        return found
    # Room for rounding: what is beyond is on the bound.
    low, high = fit.curve.bounds(fit.counts.n_N)[place] + np.array([1e-9, -1e-9])
    if not low < fit.parameters_P[place] < high or covariance(fit, parameter.name).dispersion < _ALIKE:
        wide = profile_interval(fit, parameter.name, least=1.0)
        # Wald's does not exist on a bound.
        found = wide if fit.method == "wald" else Interval(min(found.low, wide.low), max(found.high, wide.high))
    if parameter.kind == "probability":
        return Interval(0.0 if found.low < low else found.low, 1.0 if found.high > high else found.high)
    return found


def _by_method(fit: Fit, place: int) -> Interval | None:
    name = fit.curve.parameters[place].name
    if fit.method == "profile":
        return profile_interval(fit, name)
    if fit.method == "wald":
        return wald_interval(fit, name)
    if not len(fit.draws_B_P):
        return None
    low, high = np.quantile(fit.draws_B_P[:, place], levels(fit.runs))
    return Interval(float(low), float(high))
