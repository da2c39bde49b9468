"""Number formatting. A dash means not measured."""

import math
from typing import Any

import pandas as pd

from hermes_lab.analysis.comparison.wording import end_text
from hermes_lab.analysis.stats.intervals import Interval, Rate

NONE = "–"


def percent(share: Any) -> str:
    """`72 %`."""
    return NONE if _is_missing(share) else f"{100 * share:.0f} %"


def points(difference: float) -> str:
    """`+43`, or `−3` with a typographic minus."""
    return f"{round(100 * difference):+d}".replace("-", "−")


def interval(ends: Interval) -> str:
    """`39 to 47`, in points. An end close to zero says on which side of it it is: `−28 to −0.2`."""
    return " to ".join(end_text(end).replace("-", "−") for end in ends)


def rate(value: Rate) -> str:
    """`434/600 · 72 % (69–76)`."""
    if not value.trials:
        return NONE
    low, high = (f"{100 * end:.0f}" for end in value.interval)
    return f"{value.successes:,}/{value.trials:,} · {percent(value.value)} ({low}–{high})"


def number(value: Any) -> str:
    """`1,234`, `56.7k`, `8.9M`."""
    if _is_missing(value):
        return NONE
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if letter == 'k' else size):.3g}{letter}"
    return f"{value:,.0f}" if abs(value) >= 10 or value == int(value) else f"{value:.2g}"


def duration(seconds: Any) -> str:
    """`0.8 s`, `12 s`, `3.4 min`, `2.1 h`."""
    if _is_missing(seconds):
        return NONE
    for size, unit in ((3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"


def _is_missing(value: Any) -> bool:
    return value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value))
