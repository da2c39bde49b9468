"""Transfer matrix: held-out success on each block after learning each block."""

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hermes_lab.analysis.plots import style
from hermes_lab.analysis.plots.style import INK, SEQUENTIAL, TEXT

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_transfer(ax: "Axes", scores: npt.NDArray[np.float64], title: str = "Held-out success by block") -> "Axes":
    """R_ij, success on held-out tasks of block j after learning i blocks. `scores` has shape (T + 1, T); row 0 is
    before the first block. A frame marks the block learned last. NaN is shown as not measured."""
    style.dress(ax, title, "evaluated on block", "learned blocks", grid="")
    ax.spines["bottom"].set_visible(False)
    if not np.isfinite(scores).any():
        style.not_measured(ax)
        return ax
    rows, columns = scores.shape
    ax.imshow(scores, cmap=SEQUENTIAL, vmin=0, vmax=1, aspect="auto")
    ax.set_xticks(range(columns), [str(j + 1) for j in range(columns)])
    ax.set_yticks(range(rows), ["none", *(f"1 to {i}" if i > 1 else "1" for i in range(1, rows))])
    if columns > 12:
        return ax
    for i in range(rows):
        for j in range(columns):
            _write(ax, i, j, float(scores[i, j]))
        if 0 < i <= columns:
            _frame(ax, i, i - 1)
    return ax


def _write(ax: "Axes", i: int, j: int, score: float) -> None:
    measured = np.isfinite(score)
    color = INK if not measured else "white" if score < 0.5 else "black"
    ax.text(j, i, f"{100 * score:.0f} %" if measured else "–", ha="center", va="center", color=color, fontsize=TEXT)


def _frame(ax: "Axes", i: int, j: int) -> None:
    from matplotlib.patches import Rectangle

    edge = {"fill": False, "edgecolor": style.VERMILION, "linewidth": 2.2}
    ax.add_patch(Rectangle((j - 0.47, i - 0.47), 0.94, 0.94, **edge))  # type: ignore[arg-type]
