"""Small SVG charts. Positions are in per cent and sizes in pixels, so that charts stretch and text keeps its size;
colours are CSS classes, so that they follow light and dark mode."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from hermes_lab.analysis.fitting.result import Fit
from hermes_lab.analysis.plots import success_points
from hermes_lab.analysis.plots.palette import DARK, Look
from hermes_lab.analysis.report.markup import Markup, element, join
from hermes_lab.analysis.report.words import points
from hermes_lab.analysis.stats.intervals import Interval

_LEFT, _RIGHT = 9.0, 98.0
"""Left and right edge of the data, in per cent of the width."""


class Bar(NamedTuple):
    """An estimate with its interval, in axis units."""

    label: str
    value: float
    interval: Interval | None
    told: str
    """The text label."""


def effect(bar: Bar, shown: bool) -> Markup:
    """A difference with its interval against zero, on an axis of at most -100 to 100 points."""
    low, high = bar.interval or Interval(bar.value, bar.value)
    reach = next(r for r in (0.1, 0.2, 0.5, 1.0) if r >= max(abs(low), abs(high), abs(bar.value)) or r == 1.0)

    def x(value: float) -> str:
        return _percent(4 + 92 * (value + reach) / (2 * reach))

    ticks = [tick * reach for tick in (-1, -0.5, 0, 0.5, 1)]
    parts = [element("line", x1=x(t), x2=x(t), y1=8, y2=56, class_="zero" if t == 0 else "grid") for t in ticks]
    parts += [_text(x(t), 74, points(t) if t else "0", "tick middle") for t in ticks]
    parts.append(element("line", x1=x(low), x2=x(high), y1=32, y2=32, class_="bar"))
    parts.append(element("circle", cx=x(bar.value), cy=32, r=8, class_="dot"))
    return _svg(parts, 82, bar.told, "effect" if shown else "effect unshown")


def forest(bars: Sequence[Bar], low: float, high: float, zero: float | None = None) -> Markup:
    """A forest plot: estimates with intervals, labels on the left and values on the right."""

    def x(value: float) -> str:
        return _percent(34 + 40 * (min(max(value, low), high) - low) / (high - low))

    parts = []
    bottom = 28 * len(bars) + 6
    ends = (low, high) if zero is None else (low, zero, high)
    for end in ends:
        parts.append(element("line", x1=x(end), x2=x(end), y1=4, y2=bottom, class_="zero" if end == zero else "grid"))
        parts.append(_text(x(end), bottom + 16, f"{100 * end:.0f}".replace("-", "−"), "tick middle"))
    for place, bar in enumerate(bars):
        y = 20 + 28 * place
        parts.append(_text("0%", y + 4, bar.label, "label"))
        if bar.interval:
            parts.append(element("line", x1=x(bar.interval.low), x2=x(bar.interval.high), y1=y, y2=y, class_="bar"))
        parts.append(element("circle", cx=x(bar.value), cy=y, r=5, class_="dot"))
        parts.append(_text("100%", y + 4, bar.told, "label end"))
    return _svg(parts, bottom + 24, "; ".join(f"{bar.label}: {bar.told}" for bar in bars), "forest")


def learning_curves(series: dict[str, pd.DataFrame], fits: dict[str, Fit], looks: Mapping[str, Look]) -> Markup:
    """Success at the first submission against experience: means with Wilson bars, and the fitted curve with its band if
    identified."""
    height, top, bottom = 324, 34, 286
    until = max(float(rows["experience"].max()) for rows in series.values()) or 1.0

    def x(n: float) -> str:
        return _percent(_LEFT + (_RIGHT - _LEFT) * n / until)

    def y(rate: float) -> float:
        return bottom - (bottom - top) * rate

    parts = [_text("0%", 14, "solved at the first submission", "tick")]
    for rate in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts.append(element("line", x1=x(0), x2=x(until), y1=y(rate), y2=y(rate), class_="grid"))
        parts.append(_text(_percent(_LEFT - 1.5), y(rate) + 4, f"{100 * rate:.0f} %", "tick end"))
    for n in _ticks(until):
        parts.append(_text(x(n), bottom + 18, f"{n:g}", "tick middle"))
    parts.append(_text(x(until / 2), bottom + 36, "tasks seen before", "tick middle"))
    for name, fit in fits.items():
        if fit.identified and name in series:
            parts.append(_curve(fit, fit.reach, until, looks[name], top, bottom))
    for name, rows in series.items():
        for point in success_points(rows):
            at, ends = x(point.experience), point.rate.interval
            mark = [
                element("title", f"{name}, n = {point.experience:.3g}: {point.rate}"),
                element("line", x1=at, x2=at, y1=y(ends.low), y2=y(ends.high), class_="whisker"),
                element("svg", _marker(looks[name]), x=at, y=y(point.rate.value), class_="mark"),
            ]
            parts.append(element("g", *mark, class_=colour(looks[name])))
    told = f"Success at the first submission against experience, for {', '.join(series)}"
    return _svg(parts, height, told, "curves")


def strip(counts: Sequence[float], told: str) -> Markup:
    """A row of cells, darker for higher counts; zero is empty."""
    most = max(counts, default=0) or 1
    width = 100 / max(len(counts), 1)
    cells = [
        element(
            "rect", x=_percent(place * width), y=3, width=_percent(width * 0.86), height=12, rx=1.5,
            class_=f"cell h{int(np.ceil(9 * count / most))}",
        )
        for place, count in enumerate(counts)
    ]  # fmt: skip
    return _svg(cells, 18, told, "strip")


def colour(look: Look) -> str:
    """The CSS class of a series' colour."""
    return f"c{look.color[1:].lower()}"


def colours() -> str:
    """The CSS of all colours, in light and dark mode."""
    return "".join(f".c{c[1:].lower()} {{ color: light-dark({c.lower()}, {dark}); }}\n" for c, dark in DARK.items())


def swatch(look: Look) -> Markup:
    """A series' line and marker, for a legend."""
    line = element("line", x1=0, x2=34, y1=6, y2=6, class_="curve", stroke_dasharray=dash_array(look))
    mark = element("svg", _marker(look), x=17, y=6, class_="mark")
    return element("svg", line, mark, width=34, height=12, class_=f"chart swatch {colour(look)}", aria_hidden="true")


_SHAPES = {
    "o": "M-4.2,0a4.2,4.2 0 1 0 8.4,0a4.2,4.2 0 1 0 -8.4,0Z",
    "s": "M-3.8,-3.8H3.8V3.8H-3.8Z",
    "^": "M0,-5L4.8,3.8H-4.8Z",
    "v": "M0,5L4.8,-3.8H-4.8Z",
    "<": "M-5,0L3.8,4.8V-4.8Z",
    ">": "M5,0L-3.8,4.8V-4.8Z",
    "D": "M0,-5.4L5.4,0L0,5.4L-5.4,0Z",
    "P": "M-1.7,-5H1.7V-1.7H5V1.7H1.7V5H-1.7V1.7H-5V-1.7H-1.7Z",
    "X": "M-5,-2.6L-2.6,-5L0,-2.4L2.6,-5L5,-2.6L2.4,0L5,2.6L2.6,5L0,2.4L-2.6,5L-5,2.6L-2.4,0Z",
    "p": "M0,-5L4.8,-1.5L2.9,4H-2.9L-4.8,-1.5Z",
    "h": "M0,-5L4.3,-2.5V2.5L0,5L-4.3,2.5V-2.5Z",
    "*": "M0,-5.5L1.4,-1.8L5.2,-1.7L2.2,0.7L3.2,4.5L0,2.3L-3.2,4.5L-2.2,0.7L-5.2,-1.7L-1.4,-1.8Z",
}
"""matplotlib's markers as paths around the origin, in pixels."""


def marker_path(look: Look) -> str:
    """A series' marker as the data of an SVG path around the origin, in pixels."""
    return _SHAPES[look.marker]


def _marker(look: Look) -> Markup:
    return element("path", d=marker_path(look), class_="point")


def dash_array(look: Look) -> str | None:
    """A series' line as SVG's `stroke-dasharray`; None for a solid line."""
    return " ".join(f"{2 * length:g}" for length in look.dashes) or None


def _curve(fit: Fit, longest: float, until: float, look: Look, top: float, bottom: float) -> Markup:
    """A nested SVG in data units, stretched into place."""
    n_N = np.linspace(0.0, longest, 120)
    low_N, high_N = fit.band(n_N)

    def outline(n: np.ndarray, rate: np.ndarray) -> str:
        return " ".join(f"{a / until * 1000:.1f},{1000 - 1000 * b:.1f}" for a, b in zip(n, rate, strict=True))

    edge = outline(np.concatenate([n_N, n_N[::-1]]), np.concatenate([low_N, high_N[::-1]]))
    shapes = [
        element("polygon", points=edge, class_="band"),
        element("polyline", points=outline(n_N, fit.predict(n_N)), class_="curve", stroke_dasharray=dash_array(look)),
    ]
    return element(
        "svg", *shapes, x=_percent(_LEFT), y=top, width=_percent(_RIGHT - _LEFT), height=bottom - top,
        viewBox="0 0 1000 1000", preserveAspectRatio="none", class_=colour(look),
    )  # fmt: skip


def _ticks(until: float) -> list[float]:
    step = next(s for s in (1, 2, 5, 10, 20, 25, 50, 100, 200, 500, 1000, 10_000, 10**9) if until / s <= 8)
    return [float(n) for n in np.arange(0, until + step / 2, step) if n <= until]


def _percent(value: float) -> str:
    return f"{value:.2f}%"


def _text(x: str, y: float, text: str, kind: str) -> Markup:
    return element("text", text, x=x, y=y, class_=kind)


def _svg(parts: list[Markup], height: float, told: str, kind: str) -> Markup:
    return element("svg", join(parts), width="100%", height=height, role="img", aria_label=told, class_=f"chart {kind}")
