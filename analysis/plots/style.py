"""How every picture looks: colours, marks, axes and legends; and how a figure becomes a file.

The colours are Okabe and Ito's, told apart by colour-blind readers; the marks tell the same series apart in grey. Text
and axes are drawn in `INK`, the gaps between marks in `PAPER`: `svg` puts other colours in their place, so that a page
in dark mode draws them in its own.
"""

import io
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, PAPER = "#333332", "#fffffe"
"""Placeholders that no palette holds: a dark grey and a white to the eye."""
MUTED = (INK, 0.62)
GRID = (INK, 0.14)
BLUE, VERMILION, GREEN, PURPLE, SKY, ORANGE = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00"
GAIN, LOSS = BLUE, VERMILION
SEQUENTIAL = "cividis"
"""Even in grey, and the same to colour-blind readers."""
TEXT, SMALL = 9.5, 8.5


Color = str | tuple[str, float]
"""Of matplotlib: a name, or a name and an opacity."""


class Look(NamedTuple):
    """The colour and the mark of a series."""

    color: str
    marker: str


_COLORS = (BLUE, VERMILION, GREEN, PURPLE, SKY, ORANGE)
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_USUAL = ("skills on", "skills off", "placebo", "oracle", "frozen")
"""These keep their look in every picture, alone or together."""


def looks(names: Iterable[str]) -> dict[str, Look]:
    """A look for each series, the usual arms first, then the others as they come. 42 of them differ."""
    present = list(dict.fromkeys(names))
    present.sort(key=lambda name: _USUAL.index(name) if name in _USUAL else len(_USUAL))
    taken = {name: _look(place) for place, name in enumerate(_USUAL) if name in present}
    free = (look for place in range(len(present) + len(_USUAL)) if (look := _look(place)) not in taken.values())
    return {name: taken.get(name) or next(free) for name in present}


def _look(place: int) -> Look:
    return Look(_COLORS[place % len(_COLORS)], _MARKERS[place % len(_MARKERS)])


def figure(width: float = 8.0, height: float = 5.0) -> "Figure":
    """A figure of so many inches that belongs to no window and needs no `pyplot`."""
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
    """The figure as an `<svg>` element to stand in a page, transparent, with text as text.

    `ink` and `paper` are any CSS colours: with those given, the page's own. `name` keeps the ids of several pictures
    of one page apart. The same figure gives the same bytes.
    """
    import matplotlib as mpl

    image = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        drawn.savefig(image, format="svg", transparent=True, metadata={"Date": None})
    text = image.getvalue()
    text = text[text.index("<svg") :]
    # What it says of every element of a document it must say of its own alone.
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
    """Shows shares as per cent, or differences of them as points with a sign."""
    from matplotlib.ticker import FuncFormatter

    def told(value: float, _: object) -> str:
        return f"{100 * value:+.0f}".replace("+0", "0").replace("-0", "0") if signed else f"{100 * value:.0f} %"

    (ax.yaxis if axis == "y" else ax.xaxis).set_major_formatter(FuncFormatter(told))


def whole_numbers(ax: "Axes", axis: str = "x") -> None:
    """Ticks at whole numbers alone."""
    from matplotlib.ticker import MaxNLocator

    (ax.xaxis if axis == "x" else ax.yaxis).set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def legend_below(ax: "Axes", note: str = "") -> None:
    """A legend under the axes, where it can cover no point, with a note of what is drawn."""
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
    """Says so in the middle of the axes, which then show no scale."""
    ax.set(xticks=[], yticks=[])
    ax.grid(visible=False)
    note(ax, 0.5, 0.5, why, ha="center", va="center", fontsize=11)


def note(ax: "Axes", x: float, y: float, text: str, **how: object) -> None:
    """Muted text at a place of the axes, from 0 to 1."""
    ax.text(x, y, text, **({"transform": ax.transAxes, "color": MUTED, "fontsize": SMALL} | how))  # type: ignore[arg-type]


def named_rows(ax: "Axes", names: Sequence[str], *, most: int = 40, longest: int = 36) -> None:
    """One row a name, the first on top. Of too many names none is written: their number is."""
    ax.set_ylim(len(names) - 0.5, -0.5)
    if len(names) > most:
        ax.set_yticks([])
        ax.set_ylabel(f"{len(names):,} rows", color=INK, fontsize=TEXT)
        return
    ax.set_yticks(range(len(names)), [shortened(name, longest) for name in names])


def shortened(text: str, longest: int) -> str:
    """With the middle left out, since names of one kind begin alike and differ at the end."""
    if len(text) <= longest:
        return text
    tail = (longest - 1) // 2
    return f"{text[: longest - 1 - tail]}…{text[-tail:]}"
