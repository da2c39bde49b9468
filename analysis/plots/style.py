"""Plot style: colours, markers, axes and legends; and export of figures.

`palette` has the colours, markers and lines of series. Text and axes use `INK`, gaps between marks `PAPER`; `svg`
replaces both, so that a page in dark mode can use its own colours.
"""

import contextlib
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hermes_lab.analysis.plots.palette import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION, Look, looks
from hermes_lab.errors import ConfigError
from hermes_lab.records import write_atomic

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["BLUE", "GREEN", "ORANGE", "PURPLE", "SKY", "VERMILION", "Look", "looks"]
FORMATS = (".png", ".svg", ".pdf")
INK, PAPER = "#333332", "#fffffe"
"""Placeholder colours that occur in no palette: visually dark grey and white."""
MUTED = (INK, 0.62)
GRID = (INK, 0.14)
GAIN, LOSS = BLUE, VERMILION
SEQUENTIAL = "cividis"
"""Perceptually uniform and colour-blind safe."""
TEXT, SMALL = 9.5, 8.5


Color = str | tuple[str, float]
"""A matplotlib colour: a name, or a name and an opacity."""


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
    with _laid_out(drawn):
        drawn.savefig(image, format="png")
    return image.getvalue()


@contextlib.contextmanager
def _laid_out(drawn: "Figure") -> Iterator[None]:
    """Lays the figure out for a PNG. Otherwise `savefig` does so by drawing everything, before it draws everything."""
    layout = drawn.get_layout_engine()
    if layout is None:
        yield
        return
    layout.execute(drawn)
    drawn.set_layout_engine("none")
    try:
        yield
    finally:
        drawn.set_layout_engine(layout)


def save(drawn: "Figure | Axes", path: Path) -> Path:
    """Writes a figure, or that of some axes, as PNG, SVG or PDF by the file's suffix; returns the path.

    The same figure gives the same bytes: no file has a date. In SVG and PDF text stays text.
    """
    check_suffix(path)
    import matplotlib as mpl

    whole = drawn.get_figure(root=True) or drawn if hasattr(drawn, "get_figure") else drawn
    metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": None}[path.suffix.lower()]
    image = io.BytesIO()
    with contextlib.ExitStack() as around:
        around.enter_context(mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "hermes-lab", "pdf.fonttype": 42}))
        if path.suffix.lower() == ".png":
            around.enter_context(_laid_out(whole))  # type: ignore[arg-type]
        whole.savefig(image, format=path.suffix[1:].lower(), metadata=metadata)  # type: ignore[union-attr]
    write_atomic(path, image.getvalue())
    return path


def check_suffix(path: Path) -> None:
    """Raises `ConfigError` for a file that is none of PNG, SVG and PDF."""
    if path.suffix.lower() not in FORMATS:
        raise ConfigError(f"{path}: no picture format; give a file that ends in {', '.join(FORMATS)}")


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
