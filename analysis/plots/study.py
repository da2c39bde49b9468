"""An overview of a study, one panel per part."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from hermes_lab.analysis.data.series import series_of
from hermes_lab.analysis.plots import style
from hermes_lab.analysis.plots.points import draw_points, success_points
from hermes_lab.analysis.plots.style import INK, MUTED, TEXT

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = ["arm", "model", "adapter", "adapter_digest", "phase", "experience", "success"]
"""The `load_episodes` columns that a panel needs."""
_BINS = 8
_NARROWEST = 6.6
"""Width of the legend in inches."""
_NOTE = "points: tasks solved at the first submission, Wilson 95 % intervals; lines join points, no fit"


def plot_arms(ax: "Axes", frame: pd.DataFrame, title: str, *, looks: Mapping[str, style.Look]) -> "Axes":
    """Measured success at the first submission against experience, one line per arm, without fits."""
    style.dress(ax, title, "tasks seen before", "solved at first")
    ax.set_ylim(0, 1)
    style.percent(ax)
    style.whole_numbers(ax)
    rows = frame[(frame["phase"] == "learn") & frame["success"].notna()]
    if rows.empty:
        style.not_measured(ax)
        return ax
    series = series_of(rows)
    names = [name for name in looks if (series == name).any()]
    for name in names:
        points = success_points(rows[series == name], bins=_BINS)
        ax.plot(
            [p.experience for p in points],
            [p.rate.value for p in points],
            color=looks[name].color,
            linestyle=looks[name].line,
            alpha=0.6,
        )
        draw_points(ax, points, looks[name], name)
    return ax


def study_figure(parts: Mapping[str, Mapping[str, pd.DataFrame]], *, across: int = 4) -> "Figure":
    """One panel per part, with further variants in rows below. `parts` has frames by part and variant.

    More than `across` parts are divided into bands of about the same number.
    """
    variants = list(dict.fromkeys(variant for frames in parts.values() for variant in frames))
    across = -(-len(parts) // -(-len(parts) // across))
    names = list(parts)
    rows = [
        (band, variant)
        for band in (names[start : start + across] for start in range(0, len(names), across))
        for variant in variants
        if any(variant in parts[part] for part in band)
    ]
    figure = style.figure(max(3.1 * across + 0.8, _NARROWEST), 2.5 * len(rows) + 0.7)
    axes = figure.subplots(len(rows), across, squeeze=False, sharey="row")
    every = [frame for frames in parts.values() for frame in frames.values()]
    looks = style.looks(name for frame in every for name in series_of(frame).unique())
    for row, (band, variant) in enumerate(rows):
        is_last = row + 1 == len(rows) or rows[row + 1][0] != band
        for column, part in enumerate(band):
            if variant not in parts[part]:
                continue
            title = f"{part}, {variant}" if len(variants) > 1 else part
            ax = plot_arms(axes[row][column], parts[part][variant], title, looks=looks)
            if not is_last:
                ax.set_xlabel("")
            if column:
                ax.set_ylabel("")
    for ax in axes.flat:
        if not ax.has_data():
            ax.set_axis_off()
    _legend(figure, axes)
    return figure


def save_study(parts: Mapping[str, Mapping[str, pd.DataFrame]], path: Path) -> None:
    """Writes the figure as PNG, SVG or PDF, by the suffix."""
    style.save(study_figure(parts), path)


def _legend(figure: "Figure", axes: "np.ndarray") -> None:
    """A shared legend below all panels."""
    entries = {label: handle for ax in axes.flat for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    legend = figure.legend(
        list(entries.values()),
        list(entries),
        loc="outside lower left",
        ncols=max(len(entries), 1),
        frameon=False,
        fontsize=TEXT,
        labelcolor=INK,
        title=_NOTE,
        title_fontsize=style.SMALL,
        alignment="left",
    )
    legend.get_title().set_color(MUTED)
