"""Learning curves: success against experience, with fitted curves that are identified."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from hermes_lab.analysis.data.series import series_of
from hermes_lab.analysis.fitting.result import Fit
from hermes_lab.analysis.plots import style
from hermes_lab.analysis.plots.points import draw_points, success_points
from hermes_lab.analysis.plots.style import INK, MUTED, PAPER, SMALL, Look
from hermes_lab.text.counted import counted
from hermes_lab.types.episode import Phase

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_NOTE = "points: mean and Wilson 95 % interval; fitted curve with bootstrap band only if identified"


_BESIDE = 0.006
"""The distance between the points of two series, as a share of the axis."""


def plot_learning_curve(
    ax: "Axes",
    frame: pd.DataFrame,
    fits: Mapping[str, Fit],
    *,
    threshold: float | None = None,
    phase: Phase = "learn",
    title: str = "First-submission success against experience",
    about: str = "",
) -> "Axes":
    """Success at the first submission against experience, for each series of `load_episodes`, of one phase.

    Points are means with Wilson 95 % bars. A curve and its bootstrap band are drawn only if the fit is identified;
    otherwise the legend says so. With `threshold`, a mark shows when an identified curve reaches it, with the
    interval; an arrow is an end outside the plot. `about` is a line below, such as what was run.
    """
    rows = frame[frame["phase"] == phase]
    _dress(
        ax,
        title,
        "solved at the first submission" if phase == "learn" else "held-out tasks solved at the first submission",
    )
    if not rows["success"].notna().any():
        style.not_measured(ax)
        return ax
    series = series_of(rows)
    found = style.looks(series)
    until = float(rows["experience"].max())
    for number, (name, look) in enumerate(found.items()):
        fit = fits.get(name)
        points = success_points(rows[series == name])
        shift = _BESIDE * max(until, 1) * (number - (len(found) - 1) / 2)
        draw_points(ax, points, look, _label(name, fit, threshold), shift=shift)
        if fit and fit.identified:
            _draw_fit(ax, fit, look)
            if threshold is not None:
                _draw_threshold(ax, fit, threshold, until, look)
    ax.set_xlim(-0.03 * max(until, 1), 1.03 * max(until, 1))
    style.legend_below(ax, "\n".join(filter(None, (about, _NOTE))))
    return ax


def plot_lanes(ax: "Axes", frame: pd.DataFrame) -> "Axes":
    """A raster with one row per lane and one cell per episode, dark if solved at the first submission.

    Empty cells are errored, unjudged or not run yet. Held-out tasks are not shown.
    """
    learnt = frame[(frame["phase"] == "learn") & frame["success"].notna()]
    style.dress(ax, "Each lane, task by task", "tasks in order", "", grid="")
    if learnt.empty:
        style.not_measured(ax)
        return ax
    at = learnt["experience"] + learnt["place"]
    series = series_of(learnt)
    lane_of = list(zip(series, learnt["run"], learnt["lane"], strict=True))
    found = style.looks(series)
    lanes = sorted(set(lane_of), key=lambda lane: (list(found).index(lane[0]), lane))
    row_of = {lane: row for row, lane in enumerate(lanes)}
    rows = [row_of[lane] for lane in lane_of]
    cells = np.full((len(lanes), int(at.max()) + 1), np.nan)
    cells[rows, at] = learnt["success"].to_numpy(dtype=float)
    for name, look in found.items():
        mine = np.array([lane[0] == name for lane in lanes])
        _draw_cells(ax, np.where(mine[:, None], cells, np.nan), look)
        middle = float(np.flatnonzero(mine).mean())
        note = f"{name}\n{mine.sum()} lanes" if mine.sum() > 1 else name
        ax.text(1.01, middle, note, transform=ax.get_yaxis_transform(), color=INK, fontsize=SMALL, va="center")
    ax.set_xlim(-0.5, cells.shape[1] - 0.5)
    ax.set_ylim(len(lanes) - 0.5, -0.5)
    ax.set_yticks([])
    style.whole_numbers(ax)
    return ax


def learning_figure(frame: pd.DataFrame, fits: Mapping[str, Mapping[str, Fit]], *, threshold: float = 0.8) -> "Figure":
    """The curve of each domain with its lanes below. `fits` are by domain and then by series."""
    domains = sorted(frame["domain"].unique())
    figure = style.figure(7.0 * max(len(domains), 1), 7.5)
    axes = figure.subplots(2, max(len(domains), 1), squeeze=False, height_ratios=(3, 2))
    for column, domain in enumerate(domains):
        rows = frame[frame["domain"] == domain]
        plot_learning_curve(axes[0][column], rows, fits.get(domain, {}), threshold=threshold, title=domain)
        plot_lanes(axes[1][column], rows)
    return figure


def save_learning_curve(
    run: Path, frame: pd.DataFrame, fits: Mapping[str, Fit], *, phase: Phase = "learn", path: Path | None = None
) -> Path:
    """Writes `path`, by default `plots/learning-curve.png` or `heldout-curve.png` in the run, and returns it."""
    figure = style.figure()
    plot_learning_curve(figure.add_subplot(), frame, fits, phase=phase, about=_about(frame[frame["phase"] == phase]))
    default = run / "plots" / ("learning-curve.png" if phase == "learn" else "heldout-curve.png")
    return style.save(figure, path or default)


def _about(rows: pd.DataFrame) -> str:
    """The suites and models of a picture that stands alone, and how much of them there is."""
    scored = rows[rows["success"].notna()]
    names = [" and ".join(sorted(scored[column].unique())) for column in ("suite", "model") if column in scored]
    lanes = counted(len(scored[["run", "lane"]].drop_duplicates()), "lane")
    return f"{', '.join(filter(None, names))}: {counted(len(scored), 'scored episode')} in {lanes}"


def _draw_fit(ax: "Axes", fit: Fit, look: Look) -> None:
    n_N = np.linspace(0.0, fit.reach, 200)
    low_N, high_N = fit.band(n_N)
    ax.fill_between(n_N, low_N, high_N, color=look.color, alpha=0.15, linewidth=0, zorder=1)
    ax.plot(n_N, fit.predict(n_N), color=look.color, linestyle=look.line, linewidth=2.2, zorder=2)


def _draw_threshold(ax: "Axes", fit: Fit, threshold: float, until: float, look: Look) -> None:
    when = fit.threshold(threshold)
    ax.axhline(threshold, color=MUTED, linewidth=0.8, linestyle=(0, (2, 3)), zorder=1)
    low, high = min(when.interval.low, until), min(when.interval.high, until)
    ax.hlines(threshold, low, high, color=look.color, linewidth=3.2, zorder=4, capstyle="butt")
    if when.interval.high > until:
        ax.plot([until], [threshold], marker=">", markersize=8, color=look.color, clip_on=False, zorder=4)
    if when.n <= until:
        ax.plot([when.n], [threshold], marker="d", markersize=9, color=look.color, markeredgecolor=PAPER, zorder=5)


def _label(name: str, fit: Fit | None, threshold: float | None) -> str:
    if fit is None:
        return name
    if not fit.identified:
        return f"{name}: curve not identified"
    estimates = f"{name}: {', '.join(map(str, fit.estimates))}"
    if threshold is None:
        return estimates
    when = fit.threshold(threshold)
    low, high = (f"{end:.0f}" if np.isfinite(end) else "never" for end in when.interval)
    reached = f"after {when.n:.0f} tasks ({low}-{high})" if np.isfinite(when.n) else "not reached"
    return f"{estimates}\n{100 * threshold:.0f} % {reached}"


def _draw_cells(ax: "Axes", cells: np.ndarray, look: Look) -> None:
    from matplotlib.colors import ListedColormap, to_rgba

    faint = (*to_rgba(look.color)[:3], 0.16)
    shades = ListedColormap([faint, to_rgba(look.color)])
    ax.imshow(cells, cmap=shades, vmin=0, vmax=1, aspect="auto", interpolation="nearest")


def _dress(ax: "Axes", title: str, outcome: str) -> None:
    style.dress(ax, title, "tasks seen before", outcome)
    ax.set_ylim(0, 1)
    style.percent(ax)
    style.whole_numbers(ax)
