"""Skill timelines, and which skills were loaded for which tasks."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from hermes_lab.analysis.plots import style
from hermes_lab.analysis.plots.style import BLUE, GREEN, INK, MUTED, ORANGE, PURPLE, SEQUENTIAL, SMALL, TEXT, VERMILION
from hermes_lab.analysis.skill_effects.timeline import SkillEvent, SkillLoads, What

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARKS: dict[What, tuple[style.Color, str, float]] = {
    "created": (GREEN, "P", 9),
    "patched": (ORANGE, "d", 7),
    "deprecated": (VERMILION, "v", 8),
    "dropped": (MUTED, "x", 6),
    "deleted": (PURPLE, "s", 7),
}


def plot_skill_timeline(ax: "Axes", events: Sequence[SkillEvent], loads: Sequence[SkillLoads] = ()) -> "Axes":
    """One row per skill in order of appearance, with marks for writes at the end of a round and discs for loads.

    The line spans the rounds with the skill in the library: solid while it was listed, dotted once deprecated. A disc's
    area is the number of episodes of the round that loaded the skill; it is filled if at least half were solved.
    """
    style.dress(ax, "Skills, round by round", "round", "", grid="x")
    style.whole_numbers(ax)
    if not events and not loads:
        style.not_measured(ax, "no skill was written or loaded")
        return ax
    last = max([one.round for one in loads] + [event.round + 1 for event in events])
    met: list[SkillEvent | SkillLoads] = sorted([*events, *loads], key=lambda one: one.round)
    first = met[0].round
    rows = {name: row for row, name in enumerate(dict.fromkeys(one.skill for one in met))}
    for name, row in rows.items():
        _draw_life(ax, row, [event for event in events if event.skill == name], first, last)
    for load in loads:
        full = 2 * load.solved >= load.loaded
        size = 14 + 22 * np.sqrt(load.loaded)
        ax.scatter(load.round, rows[load.skill], s=size, color=BLUE if full else "none", edgecolors=BLUE, zorder=3)
    for what, (color, marker, size) in _MARKS.items():
        mine = [event for event in events if event.what == what]
        # Writes take effect between two rounds.
        at = [event.round + 0.5 for event in mine], [rows[event.skill] for event in mine]
        if mine:
            ax.plot(*at, marker, color=color, markersize=size, markeredgewidth=1.6, label=what, zorder=4)
    if loads:
        ax.scatter([], [], s=60, color=BLUE, label="loaded, at least half solved")
        ax.scatter([], [], s=60, color="none", edgecolors=BLUE, label="loaded, fewer than half solved")
    style.named_rows(ax, list(rows))
    ax.set_xlim(first - 0.6, last + 0.6)
    style.legend_below(ax)
    return ax


def _draw_life(ax: "Axes", row: int, events: list[SkillEvent], first: int, last: int) -> None:
    """Draws a skill's line from its creation, or from before the first round if it existed already."""
    ends = {event.what: event.round + 0.5 for event in events if event.what in ("created", "deprecated", "deleted")}
    began, over = ends.get("created", first - 0.6), ends.get("deleted", last + 0.6)
    named = min(ends.get("deprecated", over), over)
    ax.hlines(row, began, named, color=(INK, 0.3), linewidth=2, zorder=1)
    if named < over:
        ax.hlines(row, named, over, color=(INK, 0.3), linewidth=1.4, linestyle=(0, (1, 2)), zorder=1)


def plot_skill_tasks(ax: "Axes", shares: pd.DataFrame, *, label: str = "episodes that loaded the skill") -> "Axes":
    """A heat map of skills (index) by tasks or kinds of task (columns); shares from 0 to 1, NaN without episodes.

    Cells without data stay blank. With at most 12 columns the shares are written in.
    """
    style.dress(ax, "Skill usage by task", "blank: no episodes", "", grid="")
    ax.spines["bottom"].set_visible(False)
    cells = shares.to_numpy(dtype=float, na_value=np.nan)
    if not np.isfinite(cells).any():
        style.not_measured(ax)
        return ax
    image = ax.imshow(cells, cmap=SEQUENTIAL, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    style.named_rows(ax, [str(name) for name in shares.index])
    _name_columns(ax, [str(name) for name in shares.columns])
    if cells.shape[1] <= 12 and cells.shape[0] <= 40:
        for (row, column), share in np.ndenumerate(cells):
            if np.isfinite(share):
                color = "white" if share < 0.5 else "black"
                ax.text(column, row, f"{100 * share:.0f}", ha="center", va="center", color=color, fontsize=SMALL)
    figure = ax.get_figure()
    assert figure is not None
    bar = figure.colorbar(image, ax=ax, fraction=0.04, pad=0.02)
    bar.set_label(label, color=INK, fontsize=TEXT)
    bar.ax.tick_params(colors=INK, length=0, labelsize=SMALL)
    bar.ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    bar.outline.set_visible(False)
    return ax


def _name_columns(ax: "Axes", names: list[str]) -> None:
    if len(names) > 30:
        ax.set_xticks([])
        ax.set_xlabel(f"{len(names):,} columns; {ax.get_xlabel()}")
        return
    shown = [style.shortened(name, 24) for name in names]
    if sum(map(len, shown)) > 60:
        ax.set_xticks(range(len(names)), shown, rotation=45, ha="right")
    else:
        ax.set_xticks(range(len(names)), shown)
