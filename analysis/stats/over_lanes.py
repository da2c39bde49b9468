"""Estimates over the clusters of a series: its lanes, or its worlds if six or more of them are replicated."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from hermes_lab.analysis.curves import Array
from hermes_lab.analysis.data.series import clusters_of
from hermes_lab.analysis.stats.bootstrap import MIN_CLUSTERS, cluster_weights, levels
from hermes_lab.analysis.stats.intervals import Interval

DRAWS = 2000
_ROUNDING = 1e-9
"""Draws that differ by less are equal up to rounding."""


class Estimate(NamedTuple):
    """An estimate and its 95 % interval over clusters, or None (see `interval_of`)."""

    value: float
    interval: Interval | None

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"value": self.value, "interval": self.interval}


class LaneDraws(NamedTuple):
    """Bootstrap draws of the clusters of one series.

    `weights_B_L` is how often each draw takes each lane, shape (1 + DRAWS, lanes); the first row is the sample itself.
    `over` describes the clusters: `20 lanes`, `20 worlds`.
    """

    weights_B_L: Array
    clusters: int
    over: str


def draw_lanes(rows: pd.DataFrame, lane_N: np.typing.NDArray[np.intp], seed: int) -> LaneDraws:
    """Draws the clusters of a series (`hermes_lab.analysis.data.series.clusters_of`), each with all of its lanes.

    `lane_N` numbers the lanes of the rows from 0, without gaps.
    """
    labels, over, _ = clusters_of(rows)
    _, first_L = np.unique(lane_N, return_index=True)
    cluster_L, found = pd.factorize(pd.Series([labels[first] for first in first_L], dtype=object))
    clusters = len(found)
    weights_B_C = np.vstack([np.ones(clusters), cluster_weights(clusters, DRAWS, seed)])
    return LaneDraws(weights_B_C[:, cluster_L], clusters, over)


def interval_of(draws_B: Array, clusters: int) -> Interval | None:
    """The bootstrap interval over this many clusters; None with fewer than 5, NaN draws or zero width. Draws, and so
    the ends, may be infinite.

    If all clusters agree, all draws are equal. That is not certainty about new ones, so there is no interval.
    """
    if clusters < MIN_CLUSTERS or np.isnan(draws_B).any():
        return None
    low, high = np.quantile(
        draws_B, levels(clusters), method="inverted_cdf"
    )  # other methods interpolate between infinite draws
    return Interval(float(low), float(high)) if low + _ROUNDING < high else None
