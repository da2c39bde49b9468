"""The interquartile mean over worlds or lanes, which is robust to outliers.

Agarwal et al. 2021, "Deep reinforcement learning at the edge of the statistical precipice" (NeurIPS): the mean of the
middle half of all scores. With enough worlds a score is a world's mean success rate and the bootstrap resamples worlds;
otherwise it is a lane's, and the bootstrap resamples replicates within each world.
Array names end in their axes: B draws, L lanes.
"""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from hermes_lab.analysis.comparison.pairs import parts
from hermes_lab.analysis.curves import Array
from hermes_lab.analysis.stats.bootstrap import MIN_CLUSTERS, levels
from hermes_lab.analysis.stats.intervals import Interval
from hermes_lab.analysis.stats.paired import units_of

DRAWS = 2000


class Aggregate(NamedTuple):
    """The interquartile mean of an arm over `over`. `interval` is None if lanes are resampled and a world has fewer
    than 5 of them or they share their tasks (they then vary less than new lanes would), or if all draws are equal."""

    arm: str
    value: float
    interval: Interval | None
    lanes: int
    over: Literal["worlds", "lanes"]

    def __str__(self) -> str:
        spread = f" ({100 * self.interval.low:.0f}-{100 * self.interval.high:.0f} %)" if self.interval else ""
        return f"{self.arm} {100 * self.value:.0f} %{spread}"

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return self._asdict()


def interquartile_mean(scores: Array) -> Array:
    """The mean over the last axis without its lowest and highest quarter (whole scores, rounded down)."""
    ordered = np.sort(scores, axis=-1)
    cut = ordered.shape[-1] // 4
    middle: Array = ordered[..., cut : ordered.shape[-1] - cut].mean(axis=-1)
    return middle


def stratified_draws(strata: Sequence[Array], draws: int = DRAWS, seed: int = 0) -> Array:
    """Bootstrap samples of scores, drawn with replacement within each stratum; shape (B, L)."""
    draw = np.random.default_rng(seed)
    return np.concatenate([scores[draw.integers(len(scores), size=(draws, len(scores)))] for scores in strata], axis=1)


def aggregate_arm(arm: str, frame: pd.DataFrame) -> Aggregate | None:
    """The interquartile mean of one arm, after learning if it has held-out tasks; None if nothing was judged."""
    part = next(parts(frame), None)
    scored = part[1][part[1]["success"].notna()] if part else frame.iloc[:0]
    if scored.empty:
        return None
    rates = scored.assign(success=scored["success"].astype(float)).groupby(["run", "world", "weights", "replicate"])
    lanes = rates["success"].mean()
    together = units_of(scored)
    if together.over == "worlds":
        strata = [lanes.groupby(level="world").mean().to_numpy()]
    else:
        strata = [scores.to_numpy() for _, scores in lanes.groupby(level=["run", "world", "weights"])]
    interval = None
    if min(map(len, strata)) >= MIN_CLUSTERS and (together.over == "worlds" or not together.shared):
        # Check the variation within strata: scores about their stratum's mean.
        clusters = sum(map(len, strata)) - len(strata) + 1
        low, high = np.quantile(interquartile_mean(stratified_draws(strata)), levels(clusters))
        # Identical scores say nothing about the spread of others.
        interval = Interval(float(low), float(high)) if low < high else None
    value = float(interquartile_mean(np.concatenate(strata)))
    return Aggregate(arm, value, interval, len(lanes), "worlds" if together.over == "worlds" else "lanes")
