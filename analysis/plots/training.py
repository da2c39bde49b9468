"""Training metrics by step."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from hermes_lab.analysis.plots import style
from hermes_lab.analysis.plots.style import BLUE
from hermes_lab.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANELS = {
    "reward": "mean reward per rollout",
    "kl": "KL from the reference, nats per token",
    "length": "tokens per rollout",
    "heldout_success": "held-out tasks solved",
    "loss": "loss, nats per token",
    "grad_norm": "gradient norm",
    "learning_rate": "learning rate",
    "margin": "reward margin, chosen minus rejected",
    "accuracy": "pair accuracy",
}
"""Axis labels of known metrics; others use their own name."""


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The steps of a `metrics.jsonl`, without a torn last line. Raises `ConfigError` for other lines that are not
    objects."""
    if not path.is_file():
        raise ConfigError(f"{path}: no such file; give the metrics.jsonl of a training run")
    lines = [line for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            rows.append(msgspec.json.decode(line, type=dict[str, Any]))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ConfigError(f"{path}:{number}: not a training step: {error}") from None
    return rows


def plot_training(ax: "Axes", steps: Sequence[Mapping[str, Any]], metric: str) -> "Axes":
    """One metric by step: logged values, and a running mean if there are many steps.

    A step without the metric is a gap. Held-out success is measured at few steps and drawn as points.
    """
    style.dress(ax, metric.replace("_", " "), "step", PANELS.get(metric, metric))
    style.whole_numbers(ax)
    logged = [(step["step"], step[metric]) for step in steps if step.get(metric) is not None]
    if not logged:
        style.not_measured(ax)
        return ax
    at_S, value_S = np.array(logged, dtype=float).T
    width = len(value_S) // 20
    sparse = len(value_S) < 30
    color = BLUE if sparse else (BLUE, 0.35)
    ax.plot(at_S, value_S, color=color, linewidth=1.4 if sparse else 0.9, marker="o" if sparse else "", markersize=5)
    if width > 1:
        mean = np.convolve(value_S, np.ones(width) / width, mode="valid")
        ax.plot(at_S[width - 1 :], mean, color=BLUE, linewidth=2.2, label=f"mean of the last {width} steps")
        style.legend_below(ax)
    if metric == "heldout_success":
        ax.set_ylim(0, 1)
        style.percent(ax)
    return ax
