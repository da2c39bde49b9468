"""Survival curves of the time to solve, with censoring."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from hermes_lab.analysis.plots import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Values = npt.NDArray[np.float64]


class Survival(Protocol):
    """A Kaplan-Meier estimate: `survival_T` just after each of the event times `times_T`, and its 95 % band."""

    @property
    def times_T(self) -> Values: ...
    @property
    def survival_T(self) -> Values: ...
    @property
    def low_T(self) -> Values: ...
    @property
    def high_T(self) -> Values: ...


def plot_survival(
    ax: "Axes",
    curves: Mapping[str, Survival],
    censored: Mapping[str, Sequence[float]],
    *,
    unit: str = "seconds",
    what: str = "solved",
) -> "Axes":
    """The share of tasks not yet `what` against time, with its band; vertical ticks are censored tasks.

    A curve that ends above half has no median, and the legend says so.
    """
    style.dress(ax, f"Share not yet {what}", unit, f"not yet {what}")
    ax.set_ylim(0, 1)
    style.percent(ax)
    drawn = {name: curve for name, curve in curves.items() if len(curve.times_T) or len(censored.get(name, ()))}
    if not drawn:
        style.not_measured(ax)
        return ax
    for name, look in style.looks(drawn).items():
        curve, cut = drawn[name], np.asarray(censored.get(name, ()), dtype=float)
        last = max(*curve.times_T, *cut, 0.0)
        at = np.array([0.0, *curve.times_T, last])
        middle, low, high = (
            np.array([1.0, *values, values[-1] if len(values) else 1.0])
            for values in (curve.survival_T, curve.low_T, curve.high_T)
        )
        ax.fill_between(at, low, high, step="post", color=look.color, alpha=0.15, linewidth=0)
        ax.step(
            at,
            middle,
            where="post",
            color=look.color,
            linestyle=look.line,
            linewidth=2.2,
            label=f"{name}: {_median(curve, cut, unit)}",
        )
        if len(cut):
            height = middle[np.searchsorted(at, cut, side="right").clip(1) - 1]
            ax.plot(cut, height, "|", color=look.color, markersize=9, markeredgewidth=1.5, clip_on=False, zorder=3)
    ax.set_xlim(left=0)
    style.legend_below(ax, "vertical tick: censored, by a budget or the end of the run")
    return ax


def _median(curve: Survival, cut: Values, unit: str) -> str:
    reached = np.flatnonzero(curve.survival_T <= 0.5)
    when = f"median {curve.times_T[reached[0]]:.3g} {unit}" if reached.size else "median not reached"
    return f"{when}, {len(cut):,} censored" if len(cut) else when
