"""Error recovery against experience."""

from typing import TYPE_CHECKING

import pandas as pd

from hermes_lab.analysis.comparison.course import met_error
from hermes_lab.analysis.data.series import series_of
from hermes_lab.analysis.plots import style
from hermes_lab.analysis.plots.points import draw_points, success_points

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_recovery(ax: "Axes", frame: pd.DataFrame) -> "Axes":
    """The share of judged episodes with an error (failed call or rejected first submission) that were accepted in the
    end, against experience, in phase `learn`. Wilson 95 % bars."""
    style.dress(ax, "Error recovery against experience", "tasks seen before", "accepted after an error")
    ax.set_ylim(0, 1)
    style.percent(ax)
    style.whole_numbers(ax)
    erred = frame[(frame["phase"] == "learn") & met_error(frame) & frame["accepted"].notna()]
    if erred.empty:
        style.not_measured(ax, "not measured: no judged episode had an error")
        return ax
    series = series_of(erred)
    found = style.looks(series)
    for name, look in found.items():
        mine = erred[series == name]
        label = f"{name}: {int(mine['accepted'].sum())} of {len(mine)} recovered"
        draw_points(ax, success_points(mine, column="accepted"), look, label)
    style.legend_below(ax, "points: mean and Wilson 95 % interval, over episodes with an error")
    return ax
