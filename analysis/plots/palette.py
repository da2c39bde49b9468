"""The look of each arm, in every plot and in the report: colour, marker and line.

The colours are Okabe and Ito's colour-blind safe palette. Markers and lines tell the same arms apart in greyscale.
"""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

BLUE, VERMILION, GREEN, PURPLE, SKY, ORANGE = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00"
GREY = "#767676"
DARK = {
    BLUE: "#4a9fe0",
    VERMILION: "#ff7f3f",
    GREEN: "#45cfa4",
    PURPLE: "#e9a3c9",
    SKY: "#b3e0ff",
    ORANGE: "#f2d36b",
    GREY: "#a8a8a8",
}
"""The same colours on a dark page."""

Dashes = tuple[float, ...]
"""Lengths of strokes and gaps, in line widths; () is a solid line."""


class Look(NamedTuple):
    """The colour, marker (as matplotlib names it) and line of a series."""

    color: str
    marker: str
    dashes: Dashes = ()

    @property
    def line(self) -> tuple[int, Dashes] | str:
        """The line style for matplotlib."""
        return (0, self.dashes) if self.dashes else "-"


ARMS = {
    "skills on": Look(BLUE, "o"),
    "skills off": Look(VERMILION, "s", (5, 2)),
    "placebo": Look(GREEN, "^", (1, 1.5)),
    "oracle": Look(PURPLE, "D", (6, 2, 1, 2)),
    "frozen": Look(ORANGE, "v", (3, 1, 1, 1, 1, 1)),
}
"""The arms' looks, alone or together."""

_OTHER_COLORS = (SKY, GREY, PURPLE, GREEN, ORANGE, BLUE)
_OTHER_MARKERS = ("P", "X", "<", ">", "p", "h", "*")
_OTHER_DASHES: tuple[Dashes, ...] = ((), (8, 3), (2, 2), (8, 2, 2, 2), (4, 4))


def looks(names: Iterable[str]) -> dict[str, Look]:
    """A look for each series: the arms first, then the others in order. There are 42 other looks.

    A series is an arm, perhaps after its weights (`tuned, skills on`). The arm decides the colour; the second and later
    weights of an arm get another marker and line.
    """
    present = list(dict.fromkeys(names))
    order = list(ARMS)
    present.sort(key=lambda name: order.index(_arm(name)) if _arm(name) in ARMS else len(order))
    found: dict[str, Look] = {}
    count: Counter[str] = Counter()
    for name in present:
        arm = _arm(name) if _arm(name) in ARMS else ""
        place = count[arm]
        count[arm] += 1
        if arm and not place:
            found[name] = ARMS[arm]
            continue
        marker = _OTHER_MARKERS[(place - bool(arm)) % len(_OTHER_MARKERS)]
        dashes = _OTHER_DASHES[(place - bool(arm)) % len(_OTHER_DASHES)]
        color = ARMS[arm].color if arm else _OTHER_COLORS[place % len(_OTHER_COLORS)]
        found[name] = Look(color, marker, dashes)
    return found


def _arm(name: str) -> str:
    """The arm of a series; `on` and `off` are short for `skills on` and `skills off`."""
    arm = name.rpartition(", ")[2]
    return f"skills {arm}" if arm in ("on", "off") else arm
