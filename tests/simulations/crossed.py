"""Coverage of the interval over trainings and worlds as crossed random effects, as a Markdown table.

    python tests/simulations/crossed.py 3000

Each training and each world shifts the success rate with skills by a normal amount; every cell has three tasks with
skills and three without, the latter shared by all trainings.
"""

import sys
from collections.abc import Iterator

import numpy as np

from hermes_lab.analysis.stats.crossed import crossed_mean

WITHOUT, WITH, TASKS = 0.25, 0.78, 3
SHAPES = ((2, 16), (3, 6), (3, 16), (3, 40), (5, 16))
SPREADS = ((0.0, 0.0), (0.0, 0.2), (0.05, 0.2), (0.1, 0.2), (0.2, 0.1))


def rates(draw: np.random.Generator, trainings: int, worlds: int, spread: tuple[float, float]) -> np.ndarray:
    """The success rates with skills, shape (trainings, worlds)."""
    between, within = draw.normal(0, spread[0], (trainings, 1)), draw.normal(0, spread[1], worlds)
    return np.clip(WITH + between + within, 0, 1)


def coverage(trainings: int, worlds: int, spread: tuple[float, float], tries: int) -> float:
    """The share of studies whose interval contains the expected effect."""
    draw = np.random.default_rng([trainings, worlds, *(round(100 * each) for each in spread)])
    truth = rates(draw, 2000, 2000, spread).mean() - WITHOUT
    covered = 0
    for _ in range(tries):
        with_skills = draw.binomial(TASKS, rates(draw, trainings, worlds, spread))
        low, high = crossed_mean((with_skills - draw.binomial(TASKS, WITHOUT, worlds)) / TASKS).interval
        covered += low <= truth <= high
    return covered / tries


def table(tries: int) -> Iterator[str]:
    """The rows of the table."""
    yield "| trainings x worlds | " + " | ".join(f"sd {a:g} and {b:g}" for a, b in SPREADS) + " |"
    yield "|---|" + "---|" * len(SPREADS)
    for trainings, worlds in SHAPES:
        found = (f"{100 * coverage(trainings, worlds, spread, tries):.1f}" for spread in SPREADS)
        yield f"| {trainings} x {worlds} | {' | '.join(found)} |"


if __name__ == "__main__":
    for line in table(int(sys.argv[1]) if len(sys.argv) > 1 else 3000):
        print(line, flush=True)
