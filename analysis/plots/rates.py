"""The two rates of a comparison."""

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from hermes_lab.analysis.comparison.result import Comparison, MetricComparison
from hermes_lab.analysis.comparison.verdict import ComparisonResult
from hermes_lab.analysis.plots import style
from hermes_lab.analysis.plots.style import GAIN, INK, LOSS, MUTED, SMALL

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH = 78
"""Characters of a line above the axes."""


def verdict_figure(verdicts: Sequence[ComparisonResult]) -> "Figure":
    """The sentence of each verdict, and below it the rates before and after, with their 95 % intervals."""
    heights = [1.4 + 0.8 * len(_parts(each.comparison)) for each in verdicts]
    drawn = style.figure(7.5, sum(heights))
    axes = drawn.subplots(len(verdicts), 1, squeeze=False, gridspec_kw={"height_ratios": heights})[:, 0]
    for ax, each in zip(axes, verdicts, strict=True):
        plot_rates(ax, each)
    return drawn


def plot_rates(ax: "Axes", verdict: ComparisonResult) -> "Axes":
    """Success at the first submission before (above) and after, in each part of the run; under the verdict's
    sentence."""
    style.dress(ax, "", "solved at the first submission", "", grid="x")
    ax.set_title("\n".join(textwrap.wrap(verdict.sentence, _WIDTH)), loc="left", fontsize=SMALL, color=INK, pad=10)
    comparison = verdict.comparison
    parts = _parts(comparison)
    if comparison is None or not parts:
        style.not_measured(ax, "not measured")
        return ax
    style.percent(ax, "x")
    names = []
    for row, part in enumerate(parts):
        moved = 0 if not part.shown else 1 if part.difference > 0 else -1
        color = {0: MUTED, 1: GAIN, -1: LOSS}[moved]
        sides = ((comparison.before, part.before, MUTED, "o"), (comparison.after, part.after, color, "D"))
        for line, (name, rate, shade, marker) in enumerate(sides, 2 * row):
            ax.hlines(line, rate.interval.low, rate.interval.high, color=shade, linewidth=2.2, zorder=2)
            ax.plot([rate.value], [line], marker, color=shade, markersize=7, zorder=3, clip_on=False)
            _write(ax, f"{100 * rate.value:.0f} %", rate.value, line, ha="center", color=INK)
            names.append(name)
        if part.part and len(parts) > 1:
            _write(ax, part.part, 0.01, 2 * row - 0.3, ha="left", color=MUTED)
    style.named_rows(ax, names)
    ax.set_xlim(-0.02, 1.02)
    ax.set_ylim(2 * len(parts) - 0.4, -0.9)
    return ax


def _write(ax: "Axes", text: str, x: float, y: float, *, ha: Literal["left", "center"], color: style.Color) -> None:
    ax.annotate(
        text,
        (x, y),
        xytext=(0, 7),
        textcoords="offset points",
        ha=ha,
        color=color,
        fontsize=SMALL,
        annotation_clip=False,
    )


def _parts(comparison: Comparison | None) -> list[MetricComparison]:
    """The comparisons of the headline's metric, one for each part of the run."""
    if comparison is None or comparison.unmeasured:
        return []
    metric = comparison.headline.metric
    return [each for each in comparison.comparisons if each.metric == metric]
