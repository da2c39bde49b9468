"""Coverage of the interval of a success rate over episodes that depend on each other, as a Markdown table.

    python tests/simulations/rate_coverage.py 2000

Each world draws its own rate from a beta distribution around the true one, with an intraclass correlation: 0 where
episodes are independent, 1 where a world's episodes all have the same outcome.
"""

import sys
from collections.abc import Iterator

import numpy as np

from hermes_lab.analysis.stats.intervals import wilson
from hermes_lab.analysis.stats.rates import effective_trials

CORRELATIONS = (0.0, 0.1, 0.3, 0.6)
RATES = (0.5, 0.8, 0.9, 0.97)


def coverage(worlds: int, episodes: int, rate: float, correlation: float, tries: int) -> float:
    """The share of experiments whose interval contains `rate`."""
    draw = np.random.default_rng([worlds, episodes, round(100 * rate), round(100 * correlation)])
    shape = (1 - correlation) / correlation if correlation else None
    covered = 0
    for _ in range(tries):
        own = draw.beta(rate * shape, (1 - rate) * shape, worlds) if shape else np.full(worlds, rate)
        solved = draw.binomial(episodes, own).tolist()
        total = worlds * episodes
        alike = sum(solved) in (0, total)  # then the tasks count, which are all different here
        effective = total if alike else effective_trials([(each, episodes) for each in solved])
        low, high = wilson(sum(solved), total, effective)
        covered += low <= rate <= high
    return covered / tries


def table(tries: int) -> Iterator[str]:
    """The rows of the table."""
    yield "| worlds x episodes | rate | " + " | ".join(f"correlation {each:g}" for each in CORRELATIONS) + " |"
    yield "|---|---|" + "---|" * len(CORRELATIONS)
    for worlds, episodes in ((6, 12), (12, 4), (12, 12), (24, 12)):
        for rate in RATES:
            found = (f"{100 * coverage(worlds, episodes, rate, each, tries):.1f}" for each in CORRELATIONS)
            yield f"| {worlds} x {episodes} | {rate:g} | {' | '.join(found)} |"


if __name__ == "__main__":
    for line in table(int(sys.argv[1]) if len(sys.argv) > 1 else 2000):
        print(line, flush=True)
