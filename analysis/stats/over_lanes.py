"""Estimates over lanes: episodes of a lane share a library and are dependent, lanes are not."""

from typing import Any, NamedTuple

import numpy as np

from hermes_lab.analysis.curves import Array
from hermes_lab.analysis.stats.bootstrap import MIN_CLUSTERS, levels
from hermes_lab.analysis.stats.intervals import Interval

DRAWS = 2000
_ROUNDING = 1e-9
"""Draws that differ by less are equal up to rounding."""


class Estimate(NamedTuple):
    """An estimate and its 95 % interval over lanes, or None (see `interval_of`)."""

    value: float
    interval: Interval | None

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"value": self.value, "interval": self.interval}


def interval_of(draws_B: Array, lanes: int) -> Interval | None:
    """The bootstrap interval over this many lanes; None with fewer than 5 lanes, NaN draws or zero width. Draws, and so
    the ends, may be infinite.

    If all lanes agree, all draws are equal. That is not certainty about new lanes, so there is no interval.
    """
    if lanes < MIN_CLUSTERS or np.isnan(draws_B).any():
        return None
    low, high = np.quantile(
        draws_B, levels(lanes), method="inverted_cdf"
    )  # other methods interpolate between infinite draws
    return Interval(float(low), float(high)) if low + _ROUNDING < high else None
