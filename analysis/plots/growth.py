"""Library growth against utility."""

from typing import TYPE_CHECKING

import pandas as pd

from hermes_lab.analysis.plots import style
from hermes_lab.analysis.plots.style import MUTED, SMALL

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_growth(ax: "Axes", growth: pd.DataFrame) -> "Axes":
    """Held-out success against the number of skills in the prompt, as a path per series.

    `growth` has the columns series, experience, skills and success (`hermes_lab.analysis.comparison.course.growth`).
    Points are labelled with the number of tasks learned from. A path to the right but not up is a library that grows
    without getting more useful."""
    style.dress(ax, "Library growth against utility", "skills in the prompt", "held-out tasks solved")
    ax.set_ylim(0, 1)
    style.percent(ax)
    measured = growth[growth["success"].notna()]
    if measured.empty:
        style.not_measured(ax, "not measured: no held-out check")
        return ax
    widest = max(float(measured["skills"].max()), 1.0)
    named: list[tuple[float, float]] = []
    for name, look in style.looks(measured["series"]).items():
        path = measured[measured["series"] == name].sort_values("experience")
        ax.plot(
            path["skills"].to_numpy(float),
            path["success"].to_numpy(float),
            color=look.color,
            marker=look.marker,
            linestyle=look.line,
            linewidth=1.6,
            markersize=6,
            label=name,
            clip_on=False,
            zorder=3,
        )
        _name_checks(ax, path, widest / 8, named)
    ax.set_xlim(-0.02 * widest, 1.08 * widest)
    style.legend_below(ax, "each point: a held-out check of the frozen library, after n training tasks")
    return ax


def _name_checks(ax: "Axes", path: pd.DataFrame, apart: float, named: list[tuple[float, float]]) -> None:
    """Labels checks with their experience, last first, skipping those too close to labels in `named`."""
    for n, skills, success in path[["experience", "skills", "success"]].astype(float).to_numpy()[::-1]:
        if any(abs(skills - x) < apart and abs(success - y) < 0.05 for x, y in named):
            continue
        named.append((skills, success))
        ax.annotate(
            f"n={n:.0f}",
            (skills, success),
            xytext=(6, -12),
            textcoords="offset points",
            fontsize=SMALL,
            color=MUTED,
        )
