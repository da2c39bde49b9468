"""Time to solve against experience: a curve with a floor, fitted to times that may be censored by a budget.

The published claim is a reduction 1 - exp(-.7 rate n), which has no floor and approaches zero time
(`hermes_lab.analysis.audit.published.time_saved`). The model here is `hermes_lab.analysis.survival.lognormal`.
"""

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from hermes_lab.analysis.curves import Array, CurveParameter
from hermes_lab.analysis.data.series import clusters_of
from hermes_lab.analysis.fitting.fit import in_common
from hermes_lab.analysis.fitting.identification import curve_blocker, data_blocker, parameter_blocker
from hermes_lab.analysis.fitting.result import Estimate, aicc
from hermes_lab.analysis.stats.bootstrap import MIN_CLUSTERS, cluster_weights, levels
from hermes_lab.analysis.stats.intervals import Interval
from hermes_lab.analysis.survival.lognormal import INITIAL, Times, bounds, maximize, median
from hermes_lab.errors import ConfigError
from hermes_lab.text.counted import counted

MIN_SEEN = 0.8
"""The share of the decrease that the data must cover; a floor far beyond them is an extrapolation."""
MAX_STEP = 0.95
"""The largest share of the decrease within the smallest step of experience in the data."""
MIN_SOLVED = 0.5
"""The share of times that must be uncensored; otherwise the median is an extrapolation."""

_NAMES = ("initial", "floor", "rate", "spread")


class Saved(NamedTuple):
    """The share of the first task's time saved after n tasks, with its 95 % interval."""

    share: float
    interval: Interval


@dataclass(frozen=True, eq=False)
class TimeFit:
    """A maximum-likelihood time curve, in seconds; `spread` is on the log scale.

    `draws_B_P` are refits on resampled runs, with B = 0 if there are too few to resample. `evidence` is the AICc of a
    constant median minus that of the curve. `reason` says why the fit is not identified, or "".
    """

    parameters_P: Array
    draws_B_P: Array
    estimates: tuple[Estimate, ...]
    log_likelihood: float
    evidence: float
    episodes: int
    censored: int
    runs: int
    over: str
    reason: str

    @property
    def identified(self) -> bool:
        """Whether the data identify the curve."""
        return not self.reason

    def predict(self, n_N: Array) -> Array:
        """Median seconds at `n_N`."""
        return median(self.parameters_P, n_N)

    def band(self, n_N: Array) -> Array:
        """The 95 % bootstrap band of `predict`, shape (2, N); only for an identified fit."""
        band: Array = np.quantile(median(self.draws_B_P, n_N), levels(self.runs), axis=0)
        return band

    def saved(self, n: float) -> Saved:
        """The time saved after `n` tasks; only for an identified fit."""
        at = np.array([n])
        share_B = 1 - median(self.draws_B_P, at)[:, 0] / self.draws_B_P[:, INITIAL]
        low, high = np.quantile(share_B, levels(self.runs))
        share = 1 - self.predict(at)[0] / self.parameters_P[INITIAL]
        return Saved(float(share), Interval(float(low), float(high)))

    def to_dict(self) -> dict[str, Any]:
        """The fit for JSON. Numbers are included even if `identified` is false."""
        return {
            "identified": self.identified,
            "reason": self.reason,
            "parameters": {
                e.name: {"value": e.value, "interval": e.interval, "identified": e.identified} for e in self.estimates
            },
            "episodes": self.episodes,
            "censored": self.censored,
            "runs": self.runs,
            "over": self.over,
            "evidence": self.evidence,
        }

    def sentence(self) -> str:
        """The fit in one line."""
        if self.reason:
            return f"not identified: {self.reason}"
        return f"{', '.join(map(str, self.estimates))}, over {self.over}"


def fit_time_curve(
    n: npt.ArrayLike,
    seconds: npt.ArrayLike,
    censored: npt.ArrayLike,
    cluster: Iterable[Hashable],
    *,
    draws: int = 200,
    seed: int = 0,
    over: str = "",
) -> TimeFit:
    """Maximum likelihood over episodes, with a bootstrap over clusters (lanes), described by `over`.

    `n`: tasks seen before; `seconds`: until solved, or until the episode ended unsolved if `censored` is true.
    `cluster` labels the run. Raises `ConfigError` if all times are censored or one is not positive.
    """
    n_N, seconds_N = np.asarray(n, dtype=np.float64), np.asarray(seconds, dtype=np.float64)
    times = Times(n_N, seconds_N, np.asarray(censored, dtype=np.bool_), np.ones_like(n_N))
    if not (seconds_N > 0).all():
        raise ConfigError("a time is not positive; leave out episodes that never ran")
    if times.censored_N.all():
        raise ConfigError("no task was solved, so there are no times to fit")
    labels: dict[Hashable, int] = {}
    cluster_N = np.array([labels.setdefault(label, len(labels)) for label in cluster], dtype=np.intp)
    bounds_P_2 = bounds(times)
    best_P, likelihood = maximize(times, _starts(times), bounds_P_2)
    draws_B_P = _bootstrap(times, cluster_N, best_P, bounds_P_2, draws if len(labels) >= MIN_CLUSTERS else 0, seed)

    # If n is always 0, the curve is its initial value; floor and rate have no effect.
    _, flat = maximize(times._replace(n_N=np.zeros_like(n_N)), best_P[None], bounds_P_2)
    evidence = aicc(flat, 2, n_N.size) - aicc(likelihood, 4, n_N.size)
    blocker = data_blocker(n_N.size, np.unique(n_N).size, 3) or curve_blocker(
        len(labels), evidence, _degenerate(best_P, times)
    )
    over = over or counted(len(labels), "lane")
    estimates = tuple(_estimate(p, best_P, draws_B_P, len(labels), over, blocker) for p in range(4))
    return TimeFit(
        parameters_P=best_P,
        draws_B_P=draws_B_P,
        estimates=estimates,
        log_likelihood=likelihood,
        evidence=evidence,
        episodes=n_N.size,
        censored=int(times.censored_N.sum()),
        runs=len(labels),
        over=over,
        reason=blocker or "; ".join(estimate.reason for estimate in estimates if estimate.reason),
    )


def fit_times(frame: pd.DataFrame, *, domain: str = "", draws: int = 200, seed: int = 0) -> TimeFit:
    """The time curve of the judged episodes of one series of `load_episodes`, or of those of a `domain`.

    Clusters are `hermes_lab.analysis.data.series.clusters_of`. Only experience that all lanes of the frame reached
    counts, as in `hermes_lab.analysis.fitting.fit.scored_episodes`: if slow lanes end early, the others are faster, and
    that is no learning.

    The clock stops when a submission is accepted. An episode without an accepted submission is censored when it ends,
    as if it had needed longer, which favours an agent that gives up early.
    """
    if frame.empty:
        raise ConfigError("no judged episodes to fit a time curve to")
    shared, limits = in_common(frame)
    judged = shared[shared["accepted"].notna() & (shared["seconds"] > 0)]
    if domain:
        judged = judged[judged["domain"] == domain]
    if judged.empty:
        raise ConfigError("no judged episodes to fit a time curve to")
    labels, over, _ = clusters_of(judged)
    return fit_time_curve(
        judged["experience"].to_numpy(),
        judged["seconds"].to_numpy(),
        ~judged["accepted"].to_numpy(dtype=bool),
        labels,
        draws=draws,
        seed=seed,
        over=over + limits,
    )


def _starts(times: Times) -> Array:
    """Starting values: from the first to the last third of the times, at several rates."""
    log_N = np.log(times.seconds_N[np.argsort(times.n_N, kind="stable")])
    third = max(log_N.size // 3, 1)
    initial, floor = np.exp([log_N[:third].mean(), log_N[-third:].mean()])
    spread = max(float(log_N.std()), 0.05)
    turns = np.array([0.5, 2.0, 6.0, 20.0]) / max(float(times.n_N.max()), 1.0)
    return np.array([[initial, floor, rate, spread] for rate in turns])


def _bootstrap(
    times: Times, cluster_N: npt.NDArray[np.intp], best_P: Array, bounds_P_2: Array, draws: int, seed: int
) -> Array:
    weights_B_C = cluster_weights(int(cluster_N.max()) + 1, draws, seed)
    refits = [maximize(times._replace(weight_N=w_C[cluster_N]), best_P[None], bounds_P_2)[0] for w_C in weights_B_C]
    return np.array(refits).reshape(draws, best_P.size)


def _degenerate(best_P: Array, times: Times) -> str:
    initial, floor, rate, _ = best_P
    whole = 1 - times.censored_N.mean()
    if whole < MIN_SOLVED:
        return f"only {100 * whole:.0f} % of the times are uncensored"
    if floor >= initial:
        return f"time does not decrease ({initial:.3g} to {floor:.3g} s)"
    seen = -math.expm1(-rate * times.n_N.max())
    if seen < MIN_SEEN:
        return f"the floor lies beyond the data, which cover {100 * seen:.0f} % of the decrease"
    step = float(np.diff(np.unique(times.n_N)).min())
    if -math.expm1(-rate * step) > MAX_STEP:
        return "time decreases in a single step, which has no rate"
    return ""


def _estimate(p: int, best_P: Array, draws_B_P: Array, runs: int, over: str, blocker: str) -> Estimate:
    name, value = _NAMES[p], float(best_P[p])
    if not draws_B_P.size:
        return Estimate(name, value, None, False, blocker)
    low, high = np.quantile(draws_B_P[:, p], levels(runs))
    interval = Interval(float(low), float(high))
    reason = blocker or parameter_blocker(CurveParameter(name, "positive"), interval, over)
    return Estimate(name, value, interval, not reason, reason)
