"""Binned proportions against experience, shared by several plots."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from hermes_lab.analysis.plots.palette import Look
from hermes_lab.analysis.stats.intervals import Rate
from hermes_lab.analysis.stats.paired import PLACES, rate_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BINS = 12
"""Most points per series; more values of experience are binned."""


class Point(NamedTuple):
    """A proportion of the episodes around one value of experience."""

    experience: float
    rate: Rate


def success_points(rows: pd.DataFrame, bins: int = BINS, column: str = "success") -> list[Point]:
    """Proportions at each value of experience, or in `bins` ranges if there are more values."""
    # Of a frame with many columns each selection would copy all.
    measured = rows.loc[rows[column].notna(), [name for name in rows if name in {"experience", column, *PLACES}]]
    experience = measured["experience"].to_numpy(dtype=float)
    return [Point(float(experience[here].mean()), rate_of(measured[here], column)) for here in ranges(experience, bins)]


def ranges(experience: npt.NDArray[np.float64], bins: int = BINS) -> list[npt.NDArray[np.bool_]]:
    """Masks of the episodes at each value of experience, or in each of `bins` ranges that cover all."""
    groups = experience
    if np.unique(experience).size > bins:
        width = (experience.max() - experience.min() + 1) / bins
        groups = (experience - experience.min()) // width
    return [groups == group for group in np.unique(groups)]


def draw_points(ax: "Axes", points: list[Point], look: Look, label: str, *, shift: float = 0.0) -> None:
    """Means with Wilson 95 % bars, each at the n that the fitted curve has there, moved by `shift` so that the bars of
    several series stand side by side."""
    from hermes_lab.analysis.plots.style import PAPER

    below = [point.rate.value - point.rate.interval.low for point in points]
    above = [point.rate.interval.high - point.rate.value for point in points]
    ax.errorbar(
        [point.experience + shift for point in points],
        [point.rate.value for point in points],
        yerr=np.array([below, above]),
        fmt=look.marker,
        color=look.color,
        ecolor=(look.color, 0.45),
        elinewidth=1.6,
        markersize=6,
        markeredgecolor=PAPER,
        markeredgewidth=0.8,
        label=label,
        clip_on=False,
        zorder=3,
    )
