"""Power curves."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from hermes_lab.analysis.plots import style
from hermes_lab.analysis.plots.style import INK, MUTED, PAPER

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Curve = tuple[Sequence[int], Sequence[float]]
"""Numbers of pairs and their power."""


def plot_power(ax: "Axes", curves: Mapping[str, Curve], *, target: float = 0.8, planned: int | None = None) -> "Axes":
    """Power against pairs, one line per effect; `planned` marks the pairs of the planned experiment.

    The legend has the smallest given number of pairs from which on the power stays at `target` or above.
    """
    title = "Power of the paired mid-p test (McNemar)"
    style.dress(ax, title, "pairs (tasks on both sides)", "power (probability of p < 0.05)")
    ax.set_ylim(0, 1)
    style.percent(ax)
    if not any(len(pairs) for pairs, _ in curves.values()):
        style.not_measured(ax, "no planned experiment")
        return ax
    ax.axhline(target, color=MUTED, linewidth=0.9, linestyle=(0, (2, 3)))
    for name, look in style.looks(curves).items():
        pairs, power = (np.asarray(values, dtype=float) for values in curves[name])
        enough = _enough(pairs, power, target)
        reached = f"{100 * target:.0f} % from {enough:.0f} pairs" if enough else f"{100 * target:.0f} % not reached"
        every = max(1, len(pairs) // 8)
        ax.plot(
            pairs,
            power,
            look.marker,
            linestyle=look.line,
            color=look.color,
            markevery=every,
            label=f"{name}: {reached}",
        )
        if planned is not None and pairs.min() <= planned <= pairs.max():
            here = float(np.interp(planned, pairs, power))
            ax.plot([planned], [here], "o", markersize=9, color=PAPER, markeredgecolor=look.color, zorder=4)
            ax.annotate(f"{here:.2f}", (planned, here), xytext=(8, -4), textcoords="offset points", color=INK)
    if planned is not None:
        ax.axvline(planned, color=MUTED, linewidth=1)
        ax.text(planned, 0.02, f" planned: {planned}", color=MUTED, fontsize=style.SMALL)
    ax.set_xlim(left=0)
    style.legend_below(ax)
    return ax


def _enough(pairs: np.ndarray, power: np.ndarray, target: float) -> float | None:
    """The number of pairs from which on power stays at `target`; the power of a discrete test is a sawtooth."""
    short = np.flatnonzero(power < target)
    after = short[-1] + 1 if short.size else 0
    return float(pairs[after]) if after < len(pairs) else None
