"""Plot style: colours, markers, axes and legends; and export of figures.

Colours are Okabe and Ito's colour-blind safe palette; markers distinguish the same series in greyscale. Text and axes
use `INK`, gaps between marks `PAPER`; `svg` replaces both, so that a page in dark mode can use its own colours.
"""

import io
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, PAPER = "#333332", "#fffffe"
"""Placeholder colours that occur in no palette: visually dark grey and white."""
MUTED = (INK, 0.62)
GRID = (INK, 0.14)
BLUE, VERMILION, GREEN, PURPLE, SKY, ORANGE = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00"
GAIN, LOSS = BLUE, VERMILION
SEQUENTIAL = "cividis"
"""Perceptually uniform and colour-blind safe."""
TEXT, SMALL = 9.5, 8.5


Color = str | tuple[str, float]
"""A matplotlib colour: a name, or a name and an opacity."""


class Look(NamedTuple):
    """The colour and marker of a series."""

    color: str
    marker: str


_COLORS = (BLUE, VERMILION, GREEN, PURPLE, SKY, ORANGE)
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_USUAL = ("skills on", "skills off", "placebo", "oracle", "frozen")
"""These look the same in every plot, alone or together."""


def looks(names: Iterable[str]) -> dict[str, Look]:
    """A look for each series: the usual arms first, then the others in order. There are 42 distinct looks."""
    present = list(dict.fromkeys(names))
    present.sort(key=lambda name: _USUAL.index(name) if name in _USUAL else len(_USUAL))
    taken = {name: _look(place) for place, name in enumerate(_USUAL) if name in present}
    free = (look for place in range(len(present) + len(_USUAL)) if (look := _look(place)) not in taken.values())
    return {name: taken.get(name) or next(free) for name in present}


def _look(place: int) -> Look:
    return Look(_COLORS[place % len(_COLORS)], _MARKERS[place % len(_MARKERS)])


def figure(width: float = 8.0, height: float = 5.0) -> "Figure":
    """A figure (size in inches) without a window or `pyplot`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    layout = ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1)
    made = Figure(figsize=(width, height), dpi=150, layout=layout, facecolor=PAPER)
    FigureCanvasAgg(made)
    return made


def png(drawn: "Figure") -> bytes:
    """The figure as a PNG on white."""
    image = io.BytesIO()
    drawn.savefig(image, format="png")
    return image.getvalue()


def svg(drawn: "Figure", *, name: str = "picture", ink: str = "currentColor", paper: str = "Canvas") -> str:
    """The figure as a transparent `<svg>` element for a page, with text as text.

    `ink` and `paper` are CSS colours; by default the page's own. `name` makes ids unique within a page. The output is
    deterministic.
    """
    import matplotlib as mpl

    image = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        drawn.savefig(image, format="svg", transparent=True, metadata={"Date": None})
    text = image.getvalue()
    text = text[text.index("<svg") :]
    # Scope matplotlib's global `*` style to this element.
    text = re.sub(r" *<defs>\s*<style.*?</style>\s*</defs>\n", "", text, count=1, flags=re.DOTALL)
    text = text.replace("<svg ", '<svg stroke-linejoin="round" stroke-linecap="butt" ', 1)
    text = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{name}-", text)
    return text.replace(INK, ink).replace(PAPER, paper)


def dress(ax: "Axes", title: str, x: str, y: str, *, grid: str = "y") -> None:
    """Title, labels, and a grid instead of a frame; `grid` is x, y, both or ""."""
    ax.set_facecolor("none")
    ax.set_title(title, loc="left", fontsize=12, fontweight="bold", color=INK, pad=10)
    ax.set_xlabel(x, color=INK, fontsize=TEXT)
    ax.set_ylabel(y, color=INK, fontsize=TEXT)
    ax.tick_params(colors=INK, length=0, labelsize=TEXT)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.spines["bottom"].set_color(MUTED)
    if grid:
        ax.grid(visible=True, axis=grid, color=GRID, linewidth=0.8)  # type: ignore[arg-type]
        ax.set_axisbelow(True)


def percent(ax: "Axes", axis: str = "y", *, signed: bool = False) -> None:
    """Formats shares as per cent, or differences as signed points."""
    from matplotlib.ticker import FuncFormatter

    def told(value: float, _: object) -> str:
        return f"{100 * value:+.0f}".replace("+0", "0").replace("-0", "0") if signed else f"{100 * value:.0f} %"

    (ax.yaxis if axis == "y" else ax.xaxis).set_major_formatter(FuncFormatter(told))


def whole_numbers(ax: "Axes", axis: str = "x") -> None:
    """Ticks at whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    (ax.xaxis if axis == "x" else ax.yaxis).set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def legend_below(ax: "Axes", note: str = "") -> None:
    """A legend below the axes, with a note on what is drawn."""
    from matplotlib.transforms import ScaledTranslation

    handles, labels = ax.get_legend_handles_labels()
    if not handles and not note:
        return
    figure = ax.get_figure(root=True)
    assert figure is not None
    longest = max((len(line) for label in labels for line in label.splitlines()), default=0)
    legend = ax.legend(
        handles,
        labels,
        loc="upper left",
        bbox_to_anchor=(0, 0),
        bbox_transform=ax.transAxes + ScaledTranslation(0, -40 / 72, figure.dpi_scale_trans),
        borderaxespad=0,
        frameon=False,
        fontsize=TEXT,
        labelcolor=INK,
        ncols=1 if longest > 50 or len(labels) < 3 else 2 if longest > 20 else 3,
        title=note or None,
        title_fontsize=SMALL,
        alignment="left",
    )
    legend.get_title().set_color(MUTED)


def not_measured(ax: "Axes", why: str = "not measured") -> None:
    """Writes `why` in the middle of empty axes without a scale."""
    ax.set(xticks=[], yticks=[])
    ax.grid(visible=False)
    note(ax, 0.5, 0.5, why, ha="center", va="center", fontsize=11)


def note(ax: "Axes", x: float, y: float, text: str, **how: object) -> None:
    """Muted text at axes coordinates from 0 to 1."""
    ax.text(x, y, text, **({"transform": ax.transAxes, "color": MUTED, "fontsize": SMALL} | how))  # type: ignore[arg-type]


def named_rows(ax: "Axes", names: Sequence[str], *, most: int = 40, longest: int = 36) -> None:
    """One row per name, the first on top. With too many names, shows their number instead."""
    ax.set_ylim(len(names) - 0.5, -0.5)
    if len(names) > most:
        ax.set_yticks([])
        ax.set_ylabel(f"{len(names):,} rows", color=INK, fontsize=TEXT)
        return
    ax.set_yticks(range(len(names)), [shortened(name, longest) for name in names])


def shortened(text: str, longest: int) -> str:
    """Shortens text in the middle, since similar names often differ at the end."""
    if len(text) <= longest:
        return text
    tail = (longest - 1) // 2
    return f"{text[: longest - 1 - tail]}…{text[-tail:]}"
