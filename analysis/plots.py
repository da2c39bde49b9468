"""Pictures. A plot takes axes and gives them back; only `save_*` makes files."""

import io
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from analysis.fit import Fit
from analysis.intervals import Rate
from analysis.series import series_of
from hermes_lab.records import write_atomic

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BINS = 12
"""Points of an arm: more values of experience than this are binned."""

# Okabe and Ito's colours, told apart by colour-blind readers; the markers tell them apart in grey.
_STYLES = (
    ("#0072B2", "o"),
    ("#D55E00", "s"),
    ("#009E73", "^"),
    ("#CC79A7", "D"),
    ("#56B4E9", "v"),
    ("#E69F00", "P"),
)
_FIRST = ("skills on", "skills off")
"""The usual arms keep their colours in every picture."""
_INK, _GRID = "#333333", "#DDDDDD"


class Point(NamedTuple):
    """The success of the episodes around one value of experience."""

    experience: float
    rate: Rate


def plot_learning_curve(ax: "Axes", frame: pd.DataFrame, fits: Mapping[str, Fit]) -> "Axes":
    """Success at the first submission against experience, for each series of `load_episodes`.

    Points are means with Wilson 95 % bars. A curve and its bootstrap band are drawn only where the fit is
    identified; elsewhere the legend says that it is not.
    """
    series = series_of(frame)
    present = list(dict.fromkeys(series))
    order = list(_FIRST) if set(present) <= set(_FIRST) else present
    shift = 0.008 * max(float(frame["experience"].max()), 1.0)
    for place, (name, (color, marker)) in enumerate(zip(order, itertools.cycle(_STYLES), strict=False)):
        if name not in present:
            continue
        fit = fits.get(name)
        points = success_points(frame[series == name])
        # A hair's breadth apart, so that bars at the same n do not cover each other.
        _draw_points(ax, points, (place - (len(order) - 1) / 2) * shift, color, marker, _label(name, fit))
        if fit and fit.identified:
            _draw_fit(ax, fit, float(frame["experience"].max()), color)
    _dress(ax)
    return ax


def success_points(rows: pd.DataFrame, bins: int = BINS) -> list[Point]:
    """An arm's scored episodes at each value of experience, or in `bins` ranges if there are more values."""
    scored = rows[rows["success"].notna()]
    experience = scored["experience"].to_numpy(dtype=float)
    success = scored["success"].to_numpy(dtype=bool)
    groups = experience
    if np.unique(experience).size > bins:
        width = (experience.max() - experience.min() + 1) / bins
        groups = (experience - experience.min()) // width
    return [
        Point(
            float(experience[groups == group].mean()),
            Rate(int(success[groups == group].sum()), int((groups == group).sum())),
        )
        for group in np.unique(groups)
    ]


def save_learning_curve(run: Path, frame: pd.DataFrame, fits: Mapping[str, Fit]) -> Path:
    """Writes `plots/learning-curve.png` into the run folder and returns its path."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    plot_learning_curve(figure.add_subplot(), frame, fits)
    image = io.BytesIO()
    figure.savefig(image, format="png")
    path = run / "plots" / "learning-curve.png"
    write_atomic(path, image.getvalue())
    return path


def _draw_points(ax: "Axes", points: list[Point], shift: float, color: str, marker: str, label: str) -> None:
    ax.errorbar(
        [point.experience + shift for point in points],
        [point.rate.value for point in points],
        yerr=np.array(
            [
                (point.rate.value - point.rate.interval.low, point.rate.interval.high - point.rate.value)
                for point in points
            ]
        ).T,
        fmt=marker,
        color=color,
        ecolor=(color, 0.45),
        elinewidth=1.6,
        markersize=6,
        markeredgecolor="white",
        markeredgewidth=0.8,
        label=label,
        clip_on=False,
        zorder=3,
    )


def _draw_fit(ax: "Axes", fit: Fit, until: float, color: str) -> None:
    n_N = np.linspace(0.0, until, 200)
    low_N, high_N = fit.band(n_N)
    ax.fill_between(n_N, low_N, high_N, color=color, alpha=0.15, linewidth=0, zorder=1)
    ax.plot(n_N, fit.predict(n_N), color=color, linewidth=2.2, zorder=2)


def _label(name: str, fit: Fit | None) -> str:
    if fit is None:
        return name
    if not fit.identified:
        return f"{name}: curve not identified"
    return f"{name}: {', '.join(map(str, fit.estimates))}"


def _dress(ax: "Axes") -> None:
    from matplotlib.ticker import MaxNLocator

    ax.set_title(
        "First-submission success against experience",
        loc="left",
        fontsize=13,
        fontweight="bold",
        color=_INK,
        pad=12,
    )
    ax.set_xlabel("tasks seen before", color=_INK)
    ax.set_ylabel("solved at the first submission", color=_INK)
    ax.set_ylim(0, 1)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    ax.grid(axis="y", color=_GRID, linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(colors=_INK, length=0)
    # Under the axes, where it can cover no point.
    legend = ax.legend(
        loc="upper left",
        bbox_to_anchor=(0, -0.13),
        borderaxespad=0,
        frameon=False,
        fontsize=9.5,
        labelcolor=_INK,
        title="points: mean and Wilson 95 % interval; a fitted curve and its bootstrap band where it is identified",
        title_fontsize=8.5,
        alignment="left",
    )
    legend.get_title().set_color("#777777")
