"""Paired differences between two sides, by lane and overall."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd

from hermes_lab.analysis.comparison.pairs import side
from hermes_lab.analysis.comparison.wording import end_text
from hermes_lab.analysis.plots import style
from hermes_lab.analysis.plots.style import GAIN, INK, LOSS, MUTED, PAPER
from hermes_lab.analysis.stats.intervals import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class LaneChange(NamedTuple):
    """The pairs of one (replicate, world), and how many were solved only after, or only before."""

    pairs: int
    gained: int
    lost: int

    @property
    def difference(self) -> float:
        """In [-1, 1]."""
        return (self.gained - self.lost) / self.pairs


def lane_changes(pairs: pd.DataFrame, metric: str = "success") -> dict[str, LaneChange]:
    """The change in each (replicate, world), over the pairs of `hermes_lab.analysis.comparison.pairs.pair` that have
    the metric on both sides."""
    before, after = side(pairs, metric, "before"), side(pairs, metric, "after")
    whole = (before.notna() & after.notna()).to_numpy()
    place = [side(pairs, name, "before")[whole] for name in ("replicate", "world")]
    change = (after[whole].astype("int64") - before[whole].astype("int64")).groupby(place)
    return {
        f"replicate {replicate}, world {world}": LaneChange(len(one), int((one == 1).sum()), int((one == -1).sum()))
        for (replicate, world), one in change
    }


def plot_paired_difference(
    ax: "Axes",
    lanes: Mapping[str, LaneChange],
    difference: float | None,
    interval: Interval | None,
    *,
    before: str = "before",
    after: str = "after",
) -> "Axes":
    """After minus before, in points: one mark per lane, largest gain on top, and the overall difference with interval.

    `difference` and `interval` come from the comparison over all pairs; None without pairs. The overall mark is hollow
    if its interval contains zero.
    """
    measured = {name: lane for name, lane in lanes.items() if lane.pairs}
    style.dress(
        ax, f"{after} minus {before}, by lane", f"difference in points (right: {after} solved more)", "", grid="x"
    )
    style.percent(ax, "x", signed=True)
    if difference is None or not measured:
        style.not_measured(ax, "no pairs measured on both sides")
        return ax
    order = sorted(measured, key=lambda name: -measured[name].difference)
    _draw_lanes(ax, [measured[name].difference for name in order])
    style.named_rows(ax, order)
    whole = len(order) + max(0.06 * len(order), 0.6)
    _draw_whole(ax, whole, difference, interval)
    ax.set_ylim(whole + max(0.09 * len(order), 1.2), -0.5)
    reach = max(0.1, *(abs(lane.difference) for lane in measured.values()), *map(abs, interval or ()))
    ax.set_xlim(-1.08 * reach, 1.08 * reach)
    ax.axvline(0, color=MUTED, linewidth=1.2, zorder=1)
    return ax


def _draw_lanes(ax: "Axes", differences: Sequence[float]) -> None:
    few = len(differences) <= 40
    for sign, color, marker in ((1, GAIN, ">"), (-1, LOSS, "<"), (0, MUTED, "o")):
        lanes = [(row, change) for row, change in enumerate(differences) if (change > 0) - (change < 0) == sign]
        if lanes:
            rows, ends = zip(*lanes, strict=True)
            ax.hlines(rows, 0, ends, color=color, linewidth=2.2 if few else 0.7, zorder=2)
            ax.plot(ends, rows, marker, color=color, markersize=7 if few else 3, zorder=3)


def _draw_whole(ax: "Axes", row: float, difference: float, interval: Interval | None) -> None:
    shown = interval is not None and not interval.low <= 0 <= interval.high
    if interval:
        ax.hlines(row, interval.low, interval.high, color=INK, linewidth=2.6, zorder=3)
    ax.plot(
        [difference], [row], marker="D", markersize=10, color=INK if shown else PAPER, markeredgecolor=INK, zorder=4
    )
    spread = f" ({' to '.join(map(_signed, interval))})" if interval else ""
    verdict = "" if shown else ": no difference shown"
    ax.annotate(
        f"overall: {100 * difference:+.0f} points{spread}{verdict}",
        (difference, row),
        xytext=(0, -16),
        textcoords="offset points",
        ha="center",
        color=INK,
        fontsize=style.TEXT,
    )


def _signed(end: float) -> str:
    text = end_text(end)
    return f"+{text}" if end > 0 and text[0].isdigit() else text
