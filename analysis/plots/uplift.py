"""Forest plot of the leave-one-out uplift of skills."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from hermes_lab.analysis.plots import style
from hermes_lab.analysis.plots.style import GAIN, INK, LOSS, MUTED, PAPER, SMALL
from hermes_lab.analysis.stats.intervals import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Effect(Protocol):
    """The fields of `Uplift` that are drawn."""

    @property
    def skill(self) -> str: ...
    @property
    def world(self) -> int: ...
    @property
    def pairs(self) -> int: ...
    @property
    def helped(self) -> int: ...
    @property
    def harmed(self) -> int: ...
    @property
    def difference(self) -> float: ...
    @property
    def interval(self) -> Interval: ...
    @property
    def shown(self) -> bool: ...


def plot_uplift(ax: "Axes", effects: Sequence[Effect]) -> "Axes":
    """Each skill's effect on success at the first submission, the best on top, with its 95 % interval.

    A filled mark is an effect that is shown after Holm's adjustment; intervals are not adjusted. Labels on the right
    give the pairs, and how many the skill helped and harmed.
    """
    axis = "points: solved with the skill minus without it (filled: shown after Holm's adjustment)"
    style.dress(ax, "Leave-one-out uplift of each skill", axis, "", grid="x")
    style.percent(ax, "x", signed=True)
    drawn = sorted((one for one in effects if one.pairs), key=lambda one: -one.difference)
    if not drawn:
        style.not_measured(ax, "not measured: no leave-one-out run")
        return ax
    few = len(drawn) <= 40
    for color, full in ((GAIN, True), (LOSS, True), (MUTED, False)):
        mine = [(row, one) for row, one in enumerate(drawn) if _color(one) == color]
        rows = [row for row, _ in mine]
        lows, highs = [one.interval.low for _, one in mine], [one.interval.high for _, one in mine]
        ax.hlines(rows, lows, highs, color=color, linewidth=2 if few else 0.8, zorder=2)
        ax.plot(
            [one.difference for _, one in mine],
            rows,
            "s",
            markersize=6 if few else 2,
            color=color if full else PAPER,
            markeredgecolor=color,
            zorder=3,
        )
    for row, one in enumerate(drawn if few else ()):
        text = f"{one.pairs} pairs   +{one.helped}  −{one.harmed}"
        ax.text(1.02, row, text, transform=ax.get_yaxis_transform(), color=INK, fontsize=SMALL, va="center")
    several = len({one.world for one in drawn}) > 1
    style.named_rows(ax, [f"{one.skill}, world {one.world}" if several else one.skill for one in drawn])
    ax.axvline(0, color=MUTED, linewidth=1.2, zorder=1)
    reach = max(0.1, *(abs(end) for one in drawn for end in one.interval))
    ax.set_xlim(-1.05 * reach, 1.05 * reach)
    return ax


def _color(one: Effect) -> style.Color:
    if not one.shown:
        return MUTED
    return GAIN if one.difference > 0 else LOSS
