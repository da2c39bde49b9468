"""What is estimated over lanes: episodes of a lane share a library and depend on each other, lanes do not."""

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from hermes_lab.analysis.curves import Array
from hermes_lab.analysis.stats.bootstrap import MIN_CLUSTERS, cluster_weights, levels
from hermes_lab.analysis.stats.intervals import Interval

DRAWS = 2000
_ROUNDING = 1e-9
"""Draws of lanes that agree differ by less."""


class Estimate(NamedTuple):
    """A figure, and its 95 % interval over lanes; None where there is none, as `interval_of` says."""

    value: float
    interval: Interval | None

    def report(self) -> dict[str, Any]:
        """For JSON."""
        return {"value": self.value, "interval": self.interval}


def interval_of(draws_B: Array, lanes: int) -> Interval | None:
    """The interval that bootstrap draws over so many lanes make; None for fewer than 5 lanes, where a draw has no value
    (NaN), or where it would have no width. A draw, and so an end, may be infinite.

    Lanes that all agree vary in no draw. That is no certainty: of lanes that nobody ran such draws know nothing.
    """
    if lanes < MIN_CLUSTERS or np.isnan(draws_B).any():
        return None
    low, high = np.quantile(draws_B, levels(lanes), method="inverted_cdf")  # the others reckon with infinite draws
    return Interval(float(low), float(high)) if low + _ROUNDING < high else None


def mean_over_lanes(values: Sequence[float], lanes: Sequence[Hashable], *, seed: int = 0) -> Estimate:
    """The mean of `values`, and its interval by drawing whole lanes anew. With one value at least."""
    places = {lane: place for place, lane in enumerate(dict.fromkeys(lanes))}
    lane_of_value = [places[lane] for lane in lanes]
    sums_C = np.bincount(lane_of_value, weights=values)
    counts_C = np.bincount(lane_of_value)
    weights_B_C = cluster_weights(len(places), DRAWS, seed)
    return Estimate(
        float(sums_C.sum() / counts_C.sum()),
        interval_of((weights_B_C @ sums_C) / (weights_B_C @ counts_C), len(places)),
    )
