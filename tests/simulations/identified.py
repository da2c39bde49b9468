"""How often a learning curve is identified, by the number of lanes and their length, as a Markdown table.

    python tests/simulations/identified.py 20

The truth is an exponential from 30 % to 90 %. Its rates of .5, .2 and .05 have seen half of the rise after 1, 3 and 14
tasks.
"""

import sys
from collections.abc import Iterator

import numpy as np

from hermes_lab.analysis.curves.exponential import Exponential
from hermes_lab.analysis.fitting.fit import fit_curve

RATES = (0.5, 0.2, 0.05)
SHAPES = ((20, 6), (20, 12), (20, 24), (20, 48), (20, 100), (30, 24), (40, 6), (40, 12), (40, 24), (40, 48), (60, 12))
"""Lanes, and tasks of each."""


def identified(lanes: int, tasks: int, rate: float, tries: int) -> float:
    """The share of experiments whose curve is identified."""
    n = np.tile(np.arange(float(tasks)), lanes)
    p = Exponential().value(np.array((0.3, 0.9, rate)), n)
    lane = np.repeat(np.arange(lanes), tasks)
    drawn = (np.random.default_rng(number).random(n.size) < p for number in range(tries))
    return sum(fit_curve(n, success, lane, draws=200).identified for success in drawn) / tries


def table(tries: int) -> Iterator[str]:
    """The rows of the table."""
    yield "| lanes x tasks | " + " | ".join(f"rate {rate:g}" for rate in RATES) + " |"
    yield "|---|" + "---|" * len(RATES)
    for lanes, tasks in SHAPES:
        cells = " | ".join(f"{100 * identified(lanes, tasks, rate, tries):.0f} %" for rate in RATES)
        yield f"| {lanes} x {tasks} | {cells} |"


def main() -> None:
    """Prints the table."""
    for line in table(int(sys.argv[1]) if sys.argv[1:] else 20):
        print(line, flush=True)


if __name__ == "__main__":
    main()
