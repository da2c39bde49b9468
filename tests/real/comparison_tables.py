"""Prints the tables of docs/comparisons.md: size, coverage and power, by simulation through the code of `compare`.

python tests/real/comparison_tables.py [EXPERIMENTS]
"""

import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from fakes.paired_frames import experiment

from hermes_lab.analysis.stats.paired import intraclass_correlation, mcnemar, units_of
from hermes_lab.analysis.stats.power import Lanes, power_of_pairs


class Design(NamedTuple):
    """See `experiment`."""

    worlds: int
    lanes: int
    tasks: int
    luck: float = 0.0
    world_luck: float = 0.0
    common: float | None = None

    def __str__(self) -> str:
        shared = "" if self.common is None else f", {self.common:.0%} common"
        return f"{self.worlds} x {self.lanes // self.worlds} x {self.tasks}{shared} | {self.luck} | {self.world_luck}"


DESIGNS = [
    *(Design(1, 1, 100), Design(1, 1, 100, 0.7), Design(1, 4, 25), Design(1, 4, 25, 0.7)),
    *(Design(1, 6, 20), Design(1, 6, 20, 0.7), Design(1, 10, 20), Design(1, 10, 20, 0.7)),
    *(Design(1, 20, 20), Design(1, 20, 20, 0.7), Design(20, 20, 20, 0.0, 0.7), Design(10, 20, 20, 0.4, 0.7)),
    *(Design(1, 10, 20, 0.0, 0.0, 0.5), Design(1, 10, 20, 0.7, 0.0, 0.5), Design(5, 20, 3, 0.0, 0.0, 1.0)),
    *(Design(5, 20, 10, 0.0, 0.0, 0.5), Design(5, 20, 10, 0.7, 0.0, 0.5), Design(5, 20, 10, 0.0, 0.7, 0.5)),
]


def simulate(rates: dict[str, float], design: Design, seed: int) -> tuple[float, ...]:
    """p, McNemar's p, the interval, the change, its likeness in a unit, that of a pair's outcomes, the base rate."""
    frame = experiment(rates, **design._asdict(), seed=seed)
    before, after = (frame[frame["arm"] == arm] for arm in rates)
    before_P, after_P = before["success"].to_numpy(bool), after["success"].to_numpy(bool)
    together = units_of(before)
    change_P = after_P.astype(np.int64) - before_P
    exact = mcnemar(int((change_P < 0).sum()), int((change_P > 0).sum()))
    interval = together.interval(change_P)
    alike = intraclass_correlation(change_P.astype(float), together.clusterings[0])
    varies = before_P.std() > 0 and after_P.std() > 0
    pair = float(np.corrcoef(before_P, after_P)[0, 1]) if varies else 0.0
    return together.p_value(change_P), exact, *interval, float(change_P.mean()), alike, pair, float(before_P.mean())


def main(experiments: int) -> None:
    """The table, in Markdown."""
    print(
        "| worlds x replicates x tasks | luck of lanes | of worlds | size | size of McNemar | coverage at 0 | power ",
        end="",
    )
    print("| power computed | coverage |\n|---|---|---|---|---|---|---|---|---|")
    for design in DESIGNS:
        null = np.array([simulate({"off": 0.5, "on": 0.5}, design, s) for s in range(experiments)])
        true = np.array([simulate({"off": 0.5, "on": 0.75}, design, s) for s in range(experiments)])
        effect, alike, pair, baseline = true[:, 4:].mean(axis=0)
        number = design.worlds if design.worlds >= 6 else design.lanes
        pairs = design.lanes * design.tasks
        computed = f"{power_of_pairs(pairs, baseline, effect, pair, lanes=Lanes(number, alike)):.2f}"
        print(
            f"| {design} | {(null[:, 0] < 0.05).mean():.3f} | {(null[:, 1] < 0.05).mean():.3f} "
            f"| {((null[:, 2] <= 0) & (null[:, 3] >= 0)).mean():.3f} | {(true[:, 0] < 0.05).mean():.2f} "
            f"| {computed if design.common is None else ''} "
            f"| {((true[:, 2] <= effect) & (true[:, 3] >= effect)).mean():.3f} |",
            flush=True,
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
