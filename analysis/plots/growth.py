"""A library's growth against what it is worth."""

from typing import TYPE_CHECKING

import pandas as pd

from hermes_lab.analysis.plots import style
from hermes_lab.analysis.plots.style import MUTED, SMALL

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_growth(ax: "Axes", growth: pd.DataFrame) -> "Axes":
    """Success on held-out tasks against the skills that prompts name, the path of each series through its checks.

    `growth` has the columns series, experience, skills and success (`hermes_lab.analysis.comparison.course.growth`).
    Each point says after how many tasks it was measured. A path that goes right and not up is a library that grows and
    is worth no more."""
    style.dress(ax, "Library growth against utility", "skills that the prompt names", "held-out tasks solved")
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
            linewidth=1.6,
            markersize=6,
            label=name,
            clip_on=False,
            zorder=3,
        )
        _name_checks(ax, path, widest / 8, named)
    ax.set_xlim(-0.02 * widest, 1.08 * widest)
    style.legend_below(ax, "each point is a check of the frozen library, after n tasks were learnt")
    return ax


def _name_checks(ax: "Axes", path: pd.DataFrame, apart: float, named: list[tuple[float, float]]) -> None:
    """The experience of each check, the last first, that stands far enough from the `named` ones of every series."""
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
