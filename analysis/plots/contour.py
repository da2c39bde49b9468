"""Joint profile likelihood of two parameters."""

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hermes_lab.analysis.plots import style
from hermes_lab.analysis.plots.style import BLUE, INK, MUTED, VERMILION
from hermes_lab.analysis.stats.intervals import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_contour(
    ax: "Axes",
    x_X: npt.NDArray[np.float64],
    y_Y: npt.NDArray[np.float64],
    drop_Y_X: npt.NDArray[np.float64],
    best: tuple[float, float] | None,
    *,
    names: tuple[str, str] = ("asymptote", "rate"),
    profile: tuple[Interval | None, Interval | None] = (None, None),
) -> "Axes":
    """The profile likelihood of two parameters, as `hermes_lab.analysis.fitting.profile.contour` gives it.

    `drop_Y_X` is the drop in log-likelihood relative to the 95 % cutoff: the thick line at 1 is the edge of the joint
    95 % region. `best` is the fit; `profile` has the interval of each parameter, drawn at the edges.
    """
    x, y = names
    style.dress(ax, f"Profile likelihood of {x} and {y}", x, y, grid="both")
    if best is None or not np.isfinite(drop_Y_X).any():
        style.not_measured(ax, "not identified")
        return ax
    drop = np.clip(drop_Y_X, 0, 12)  # infinite values break contours
    ax.contourf(x_X, y_Y, drop, levels=[0, 1], colors=[BLUE], alpha=0.16)
    ax.contour(x_X, y_Y, drop, levels=[0.25, 0.5, 2, 4], colors=[BLUE], linewidths=0.8, alpha=0.6)
    ax.contour(x_X, y_Y, drop, levels=[1], colors=[BLUE], linewidths=2.4)
    label = f"fit: {x} {best[0]:.2g}, {y} {best[1]:.2g}"
    ax.plot(*[[value] for value in best], "P", markersize=10, color=VERMILION, label=label, zorder=4)
    across, up = profile
    if across:
        ax.hlines(0.012, *across, transform=ax.get_xaxis_transform(), color=INK, linewidth=4)
    if up:
        ax.vlines(0.008, *up, transform=ax.get_yaxis_transform(), color=INK, linewidth=4)
    ax.plot([], [], color=BLUE, linewidth=2.4, label="edge of the joint 95 % region")
    ax.plot([], [], color=MUTED, linewidth=0.8, label="0.25, 0.5, 2 and 4 times that drop")
    if across or up:
        ax.plot([], [], color=INK, linewidth=4, label="95 % profile interval of each parameter")
    style.legend_below(ax)
    return ax
