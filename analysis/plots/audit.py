"""Published claims: claimed, computed and measured values."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hermes_lab.analysis.audit.claims import Claim
from hermes_lab.analysis.plots import style
from hermes_lab.analysis.plots.style import GREEN, INK, MUTED, PAPER, SMALL, VERMILION

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_claims(ax: "Axes", claims: Sequence[Claim]) -> "Axes":
    """One row per claim, all in one unit. A grey line joins values that should agree.

    Rows say if a value was not measured or is never reached. Raises `ValueError` for claims with different units.
    """
    units = {claim.unit for claim in claims}
    if len(units) > 1:
        raise ValueError(f"claims in {', '.join(sorted(units))} have no common scale; plot one unit at a time")
    unit = next(iter(units), "")
    style.dress(ax, "Claimed, computed, measured", "" if unit == "%" else unit, "", grid="x")
    if not claims:
        style.not_measured(ax, "no claims")
        return ax
    if unit == "%":
        style.percent(ax, "x")
    for row, claim in enumerate(claims):
        _draw(ax, row, claim)
    style.named_rows(ax, [claim.what for claim in claims], longest=48)
    for name, (color, marker, size) in _MARKS.items():
        edge = INK if color == PAPER else color
        ax.plot([], [], linestyle="none", marker=marker, markersize=size, color=color, markeredgecolor=edge, label=name)
    style.legend_below(ax)
    return ax


_MARKS = {"claimed": (PAPER, "o", 9.0), "computed": (VERMILION, "x", 8.0), "measured": (GREEN, "D", 7.0)}


def _draw(ax: "Axes", row: int, claim: Claim) -> None:
    values = {"claimed": claim.claimed, "computed": claim.computed, "measured": claim.measured.value}
    told = {name: value for name, value in values.items() if value is not None and math.isfinite(value)}
    if told:
        ax.hlines(row, min(told.values()), max(told.values()), color=MUTED, linewidth=1, zorder=1)
    if claim.measured.interval and all(map(math.isfinite, claim.measured.interval)):
        ax.hlines(row, *claim.measured.interval, color=GREEN, linewidth=3, alpha=0.5, zorder=2)
    for name, value in told.items():
        color, marker, size = _MARKS[name]
        edge = INK if color == PAPER else color
        ax.plot([value], [row], marker=marker, markersize=size, color=color, markeredgecolor=edge, zorder=3)
    never = [f"{name}: never" for name, value in values.items() if value == math.inf]
    notes = [*never, claim.measured.note] if claim.measured.note not in ("", "-") else never
    place = ax.get_yaxis_transform()
    ax.text(1.01, row, "; ".join(notes), transform=place, color=MUTED, fontsize=SMALL, va="center")
