"""Recovery from drift: how far success drops when the hidden rules change mid-run, and how soon it recovers."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from hermes_lab.analysis.curves import Array
from hermes_lab.analysis.stats.bootstrap import MIN_CLUSTERS
from hermes_lab.analysis.stats.intervals import Interval, Rate, mover_sum
from hermes_lab.analysis.stats.over_lanes import Estimate, draw_lanes, interval_of


@dataclass(frozen=True)
class Recovery:
    """One series' drop and recovery after a drift.

    `before` is the success on each lane's last `window` tasks before the drift, `after` on its first `window` tasks
    after it. A fast learner has partly recovered by then, so the drop is a lower bound. `half_life` is the number of
    tasks until the moving average over `window` tasks first regains half the drop; infinite if not within the run. A
    noisy average crosses a level early, so this is a lower bound too. None if no drop is shown: its interval includes
    zero, or there are too few lanes. `over` is what the intervals are over: `20 runs`, `20 worlds`.
    """

    lanes: int
    over: str
    window: int
    before: float
    after: float
    drop: Estimate
    half_life: Estimate | None

    def to_dict(self) -> dict[str, Any]:
        """For JSON; infinity becomes null."""
        return {
            "lanes": self.lanes,
            "over": self.over,
            "window": self.window,
            "before": self.before,
            "after": self.after,
            "drop": self.drop.to_dict(),
            "half_life": self.half_life.to_dict() if self.half_life else None,
        }


def recovery_from_drift(frame: pd.DataFrame, drift_at: int, *, window: int = 5, seed: int = 0) -> Recovery | None:
    """One series' recovery from the drift at task `drift_at` of each lane, counted from 0; None if lanes have fewer
    than `window` tasks on either side. Intervals are over the series' clusters (`draw_lanes`, `interval_of`)."""
    learnt = frame[(frame["phase"] == "learn") & frame["success"].notna()]
    place = (learnt["experience"] + learnt["place"] - drift_at).to_numpy()
    lanes, lane = np.unique(learnt["run"] + "\n" + learnt["lane"], return_inverse=True)
    if not len(lanes) or place.min() > -window or place.max() < window - 1:
        return None
    inside = place >= -window
    where = (lane[inside], place[inside] + window)
    hits_L_N, tries_L_N = np.zeros((2, len(lanes), window + int(place.max()) + 1))
    np.add.at(tries_L_N, where, 1.0)
    np.add.at(hits_L_N, where, learnt["success"].to_numpy(dtype=float)[inside])
    weights_B_L, clusters, over = draw_lanes(learnt, lane, seed)
    hits_B_W, tries_B_W = (_windows(weights_B_L @ each_L_N, window) for each_L_N in (hits_L_N, tries_L_N))
    means_B_W = np.divide(hits_B_W, tries_B_W, out=np.full_like(hits_B_W, np.nan), where=tries_B_W > 0)
    before_B, after_B_W = means_B_W[:, 0], means_B_W[:, window:]
    drop_B = before_B - after_B_W[:, 0]
    before, after = (
        Rate(int(hits_L_N[:, part].sum()), int(tries_L_N[:, part].sum()))
        for part in (slice(window), slice(window, 2 * window))
    )
    drop = Estimate(float(drop_B[0]), _interval_of_drop(before, after, drop_B[1:], clusters))
    half_life = None
    if drop.interval and drop.interval.low > 0:
        halves_B = _first_reached(after_B_W, after_B_W[:, 0] + drop_B / 2)
        half_life = Estimate(float(halves_B[0]), interval_of(halves_B[1:], clusters))
    return Recovery(len(lanes), over, window, float(before_B[0]), float(after_B_W[0, 0]), drop, half_life)


def _interval_of_drop(before: Rate, after: Rate, draws_B: Array, clusters: int) -> Interval | None:
    """Newcombe's interval for two independent rates, but no narrower than the bootstrap over clusters (whose width is
    zero if all agree). None with too few for a bootstrap, or without judged episodes."""
    if clusters < MIN_CLUSTERS or np.isnan(draws_B).any():
        return None
    less = Interval(-after.interval.high, -after.interval.low)
    score = mover_sum(before.value, before.interval, -after.value, less, 0.0)
    drawn = interval_of(draws_B, clusters) or score
    return Interval(min(score.low, drawn.low), max(score.high, drawn.high))


def _windows(values_B_N: Array, window: int) -> Array:
    """Moving sums over `window` values, shape (B, N - window + 1)."""
    sums: Array = np.lib.stride_tricks.sliding_window_view(values_B_N, window, axis=-1).sum(axis=-1)
    return sums


def _first_reached(means_B_W: Array, level_B: Array) -> Array:
    """The first index of each row that reaches its level, shape (B,); infinite if none does."""
    reached_B_W = means_B_W >= level_B[:, None]
    return np.where(reached_B_W.any(axis=1), reached_B_W.argmax(axis=1), np.inf)
