"""Draws run folders of `hermes-lab experiment -c configs/calibration.yaml`, a panel each with all of its arms, and
prints what was measured in each arm, what must be, and how unlikely the difference is.

python tests/real/plot_calibration.py docs/calibration.png RUN...
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from calibrated import measured, suite_of, surprise
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from hermes_lab.analysis.plots.palette import looks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = 5
POINTS = 6


def draw(runs: list[Path], path: Path) -> None:
    """The picture of all of them."""
    columns = min(COLUMNS, len(runs))
    rows = -(-len(runs) // columns)
    figure = Figure(figsize=(max(3.0 * columns, 5.0), 2.6 * rows + 0.4), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    axes = np.atleast_1d(figure.subplots(rows, columns, sharey=True)).ravel()
    for ax, run in zip(axes, runs, strict=False):
        plot_run(ax, run)
    for ax in axes[len(runs) :]:
        ax.set_axis_off()
    labelled = {label: line for ax in axes for line, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    figure.legend(labelled.values(), labelled.keys(), loc="outside upper right", ncols=3, fontsize=9, frameon=False)
    figure.supxlabel("tasks before", fontsize=10)
    figure.supylabel("success at the first submission", fontsize=10)
    figure.savefig(path)


def plot_run(ax: "Axes", run: Path) -> "Axes":
    """Means of some neighbouring tasks with bars of two standard errors between lanes, and the curve that must be."""
    frame = measured(run)
    for arm, part in frame.groupby("arm"):
        (look,) = looks([str(arm)]).values()
        curve = part.groupby("number")["expected"].mean()
        ax.plot(curve.index, curve, color=look.color, linestyle=look.line, linewidth=1.6, zorder=1)
        groups = part.groupby(bins(part["number"], suite_of(run)[1].spec.drift_at))
        points = pd.DataFrame([point(each) for _, each in groups])
        ax.errorbar(
            points["at"], points["mean"], 2 * points["error"], fmt=look.marker, color=look.color, markersize=4,
            linewidth=1, label=f"skills {arm}", zorder=2,
        )  # fmt: skip
    ax.set_title(title(run), loc="left", fontsize=9)
    ax.set_ylim(0, 1.02)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="#DDDDDD", linewidth=0.6)
    return ax


def bins(number: "pd.Series[int]", drift_at: int) -> "pd.Series[int]":
    """About `POINTS` groups of tasks with neighbouring numbers, none of them on both sides of a drift."""
    size = max(1, round((number.max() + 1) / POINTS))
    return (number - drift_at) // size


def point(part: pd.DataFrame) -> dict[str, float]:
    """Where a point stands. The error is of how far lanes are from what is expected of them."""
    lanes = part.groupby("lane")["off"].mean()
    error = lanes.std() / np.sqrt(len(lanes))
    return {"at": part["number"].mean(), "mean": part["success"].mean(), "error": error}


def title(run: Path) -> str:
    """What world it is."""
    config, suite = suite_of(run)
    spec = suite.spec
    kind = f"{spec.drift} at {spec.drift_at}" if spec.drift_at else spec.frequencies
    return f"{config.suite.name}, {'decoy' if spec.decoy else kind}"


def table(runs: list[Path]) -> str:
    """Markdown: each arm of each run, over all of its tasks."""
    rows = ["| run | arm | episodes | measured | expected | p |", "|---|---|---|---|---|---|"]
    for run in runs:
        for arm, part in measured(run).groupby("arm"):
            means = f"{part['success'].mean():.3f} | {part['expected'].mean():.3f} | {surprise(part)[1]:.2g}"
            rows.append(f"| {title(run)} | {arm} | {len(part)} | {means} |")
    return "\n".join(rows)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(str(__doc__))
    folders = [Path(run) for run in sys.argv[2:]]
    sys.stdout.write(table(folders) + "\n")
    draw(folders, Path(sys.argv[1]))
