"""Plain-text tables for terminals and pipes."""

import shutil
import sys
from collections.abc import Sequence

from hermes_lab.text.printable import printable


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines with aligned columns, truncated to the width of a terminal. Control characters in cells are removed."""
    cells = [list(header), *([" ".join(printable(cell).split()) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header) - 1)]
    lines = ["  ".join([*map(str.ljust, row, widths), row[-1]]).rstrip() for row in cells]
    if not sys.stdout.isatty():
        return lines
    most = shutil.get_terminal_size().columns
    return [line if len(line) <= most else f"{line[: most - 3]}..." for line in lines]


def solved(successes: int, trials: int) -> str:
    """Successes out of trials; a dash if there are no trials."""
    return f"{successes}/{trials}" if trials else "-"


def interval(low: float | None, high: float | None) -> str:
    """The 95 % interval of a rate; a dash if there is none."""
    return "-" if low is None or high is None else f"{100 * low:.0f}-{100 * high:.0f} %"
