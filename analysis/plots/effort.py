"""Time, tokens or turns of episodes, with censored episodes marked."""

from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd

from hermes_lab.analysis.data.series import series_of
from hermes_lab.analysis.plots import style
from hermes_lab.analysis.plots.points import ranges
from hermes_lab.analysis.plots.style import Look

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Effort = Literal["seconds", "tokens", "iterations"]
_TITLES: dict[Effort, tuple[str, str]] = {
    "seconds": ("Episode time against experience", "seconds, review excluded"),
    "tokens": ("Episode tokens against experience", "prompt and completion tokens, review excluded"),
    "iterations": ("Episode turns against experience", "turns with a tool call"),
}
_MOST = 4000
"""Most episode marks: beyond that every k-th is drawn, to keep files small. Medians use all episodes."""


def plot_effort(ax: "Axes", frame: pd.DataFrame, what: Effort = "seconds") -> "Axes":
    """The effort of each finished episode of phase `learn`, and the median at each experience.

    An episode stopped by a budget is censored: it has an open mark and counts as longer than the median. If half are
    censored, the median is unknown and the line breaks. Errored episodes are left out.
    """
    title, unit = _TITLES[what]
    style.dress(ax, title, "tasks seen before", unit)
    style.whole_numbers(ax)
    done = frame[(frame["phase"] == "learn") & (frame["status"] == "ok")]
    if done.empty:
        style.not_measured(ax)
        return ax
    taken = done["prompt_tokens"] + done["completion_tokens"] if what == "tokens" else done[what]
    if what == "tokens" and (unknown := int((done["uncounted_calls"] > 0).sum())):
        style.not_measured(ax, f"not measured: no usage for calls of {unknown:,} of {len(done):,} episodes")
        return ax
    if not (taken > 0).any():
        style.not_measured(ax, "not measured: the model reports no usage" if what == "tokens" else "not measured")
        return ax
    series = series_of(done)
    for name, look in style.looks(series).items():
        _draw_series(ax, done[series == name], taken[series == name], name, look)
    ax.set_ylim(bottom=0)
    if what == "iterations":
        style.whole_numbers(ax, "y")
    censored = int(done["censored"].sum())
    style.legend_below(ax, f"line: median; open mark: stopped by a budget ({censored:,} of {len(done):,})")
    return ax


def _draw_series(ax: "Axes", rows: pd.DataFrame, taken: pd.Series, name: str, look: Look) -> None:
    n_E, took_E, cut_E = rows["experience"].to_numpy(float), taken.to_numpy(float), rows["censored"].to_numpy(bool)
    for cut in (False, True):
        mine = np.flatnonzero(cut_E == cut)
        mine = mine[:: max(1, -(-len(mine) // _MOST))]
        ax.plot(
            n_E[mine],
            took_E[mine],
            linestyle="none",
            marker="^" if cut else look.marker,
            markersize=6 if cut else 3.5,
            color="none" if cut else (look.color, 0.28),
            markeredgecolor=look.color if cut else "none",
            markeredgewidth=1.1 if cut else 0,
            zorder=3 if cut else 2,
        )
    middles = [(float(n_E[here].mean()), _median(took_E[here], cut_E[here])) for here in ranges(n_E)]
    at, median = np.array(middles).T
    ax.plot(
        at,
        median,
        color=look.color,
        marker=look.marker,
        linestyle=look.line,
        markersize=5,
        linewidth=2.2,
        label=name,
        zorder=4,
    )


def _median(took_E: np.ndarray, cut_E: np.ndarray) -> float:
    """The median with censored episodes as longest; NaN if half or more are censored."""
    median = float(np.median(np.where(cut_E, np.inf, took_E)))
    return median if np.isfinite(median) else float("nan")
