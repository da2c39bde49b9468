"""Whether the test and the interval of a comparison agree: zero is outside the interval exactly if p < .05.

    python tests/simulations/agreement.py 10000

Random data sets of 1 to 40 units with 1 to 8 pairs each, with and without an effect, ties included.
"""

import sys

import numpy as np

from hermes_lab.analysis.stats.paired import LEVEL, change_interval, sign_flip


def disagreements(count: int, seed: int = 0) -> int:
    """The number of data sets of `count` in which they contradict each other."""
    draw = np.random.default_rng(seed)
    found = 0
    for _ in range(count):
        units = int(draw.integers(1, 41))
        unit_P = np.repeat(np.arange(units), draw.integers(1, 9, units) if draw.random() < 0.7 else 1)
        chances = draw.dirichlet(draw.uniform(0.2, 3.0, 3))
        change_P = draw.choice([-1, 0, 1], unit_P.size, p=chances)
        low, high = change_interval(change_P, unit_P)
        found += (low > 0 or high < 0) != (sign_flip(change_P, unit_P) < LEVEL)
    return found


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    print(f"{disagreements(count)} of {count:,} data sets with a test and an interval that contradict each other")
