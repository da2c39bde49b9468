"""Coverage of the intervals that comparisons print, and the size of their tests, as a Markdown table.

    python tests/simulations/coverage.py 1000

Experiments of 6, 12 and 24 worlds that differ by 0.5 logits, anew in each arm, with 4 to 12 tasks each, whose
difficulties spread by 1.2 logits; both sets of weights have all arms.
"""

import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[1]))
from fakes.paired_frames import experiment

from hermes_lab.analysis.comparison.decomposition import decompose
from hermes_lab.analysis.comparison.oracle_gap import gap_closed
from hermes_lab.analysis.comparison.slope import learning_slope
from hermes_lab.analysis.stats.aggregate import aggregate_arm, interquartile_mean
from hermes_lab.analysis.stats.intervals import Interval
from hermes_lab.analysis.stats.paired import LEVEL, rate_of, units_of
from hermes_lab.analysis.stats.rates import mean_interval, pass_all, pass_at

LUCK, DIFFICULTY = 0.5, 1.2
LEAST, MOST = 4, 12
RATES = {"off": 0.35, "on": 0.55, "oracle": 0.8}
"""Success on a task of middling difficulty, where there are effects."""
WEIGHTS = 0.6
"""The effect of the second set of weights, in logits, where there are effects."""
WORLDS = (6, 12, 24)
SAMPLES, K = 4, 2


class Seen(NamedTuple):
    """What a simulated experiment printed: an interval and the truth, and a p if nothing differs."""

    of: str
    interval: Interval | None = None
    truth: float = 0.0
    p_value: float | None = None


def simulate(worlds: int, seed: int, *, null: bool) -> Iterator[Seen]:
    """One experiment, without any effect or with all of them."""
    rates, weights = ({"off": 0.5, "on": 0.5}, 0.0) if null else (RATES, WEIGHTS)
    frame = uneven(_drawn(worlds, rates, weights, seed), np.random.default_rng([seed, 1]))
    base = frame[frame["weights"] == 0]
    off, on = (base[base["arm"] == arm].reset_index(drop=True) for arm in ("off", "on"))
    true = {(arm, which): truth(rate, weights * which) for arm, rate in rates.items() for which in (0, 1)}
    effect = true["on", 0] - true["off", 0]
    units, change = units_of(off), on["success"].to_numpy(np.int64) - off["success"].to_numpy(np.int64)
    yield Seen("difference of two arms", units.interval(change), effect, units.p_value(change) if null else None)
    yield Seen("success rate", rate_of(on).interval, true["on", 0])
    aggregate = aggregate_arm("on", on)
    if aggregate and aggregate.interval:
        yield Seen("interquartile mean over worlds", aggregate.interval, middle_of_worlds(rates["on"]))
    both = decompose(frame)
    old, new = (true["on", which] - true["off", which] for which in (0, 1))
    on_weights = (true["on", 1] - true["on", 0] + true["off", 1] - true["off", 0]) / 2
    for name, found, real in (
        ("weights", both.weights, on_weights),
        ("skills", both.skills, (old + new) / 2),
        ("interaction", both.interaction, new - old),
    ):
        yield Seen(f"2 x 2: {name}", found.interval, real, found.p_value if null else None)
    if null and (slope := learning_slope(off, on)) and slope.interval:
        yield Seen("ratio of learning speeds", slope.interval, 1.0, slope.p_value)
    if not null and (gap := gap_closed(base)) and gap.interval:
        share = effect / (true["oracle", 0] - true["off", 0])
        yield Seen("share of the gap to the oracle", gap.interval, share)
    yield from samples_of(worlds, np.random.default_rng([seed, 2]))


def samples_of(tasks: int, draw: np.random.Generator) -> Iterator[Seen]:
    """A plain run of `tasks` tasks with several samples each and partial credit."""
    chance_T = draw.beta(1.5, 1.0, 4 * tasks)
    solved_T = draw.binomial(SAMPLES, chance_T).tolist()
    whole = SAMPLES * len(solved_T)
    one, both = pass_rates()
    for name, estimate, real in ((f"pass@{K}", pass_at, one), (f"pass^{K}", pass_all, both)):
        values = [estimate(K, solved, SAMPLES) for solved in solved_T]
        yield Seen(f"{name}, {SAMPLES} samples", mean_interval(values, whole), real)


@cache
def pass_rates() -> tuple[float, float]:
    """The chances that one of `K` samples is right, and that all are."""
    grid = (np.arange(20_000) + 0.5) / 20_000
    density = np.sqrt(grid)  # of beta(1.5, 1), up to a factor
    one, both = ((of * density).mean() / density.mean() for of in (1 - (1 - grid) ** K, grid**K))
    return float(one), float(both)


def _drawn(worlds: int, rates: dict[str, float], weights: float, seed: int) -> pd.DataFrame:
    return experiment(
        rates,
        lanes=worlds,
        worlds=worlds,
        tasks=MOST,
        luck=LUCK,
        difficulty=DIFFICULTY,
        weights=2,
        weights_effect=weights,
        seed=seed,
    )


def uneven(frame: pd.DataFrame, draw: np.random.Generator) -> pd.DataFrame:
    """The frame with 4 to 12 tasks in each world, the same ones in all arms."""
    keep = draw.integers(LEAST, MOST + 1, int(frame["world"].max()) + 1)
    return frame[frame["round"].to_numpy() < keep[frame["world"].to_numpy()]].reset_index(drop=True)


@cache
def truth(rate: float, more: float = 0.0) -> float:
    """The mean success over tasks and worlds."""
    spread = np.random.default_rng(0).normal(0, np.hypot(DIFFICULTY, LUCK), 200_000)
    return float((1 / (1 + np.exp(-(np.log(rate / (1 - rate)) + more + spread)))).mean())


@cache
def middle_of_worlds(rate: float) -> float:
    """The interquartile mean of very many worlds."""
    frame = uneven(_drawn(4000, {"on": rate}, 0.0, 0), np.random.default_rng(0))
    worlds = frame[frame["weights"] == 0].groupby("world")["success"].mean()
    return float(interquartile_mean(worlds.to_numpy(dtype=np.float64)))


def table(tries: int) -> Iterator[str]:
    """The rows of the table: coverage with and without effects together, and size."""
    covered: dict[str, dict[int, list[bool]]] = defaultdict(lambda: defaultdict(list))
    wrong: dict[str, dict[int, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for worlds in WORLDS:
        for seed in range(tries):
            for null in (True, False):
                for seen in simulate(worlds, seed, null=null):
                    if seen.interval:
                        covered[seen.of][worlds].append(seen.interval.low <= seen.truth <= seen.interval.high)
                    if seen.p_value is not None:
                        wrong[seen.of][worlds].append(seen.p_value < LEVEL)
    yield (
        "| | "
        + " | ".join(f"coverage, {worlds} worlds" for worlds in WORLDS)
        + " | "
        + " | ".join(f"size, {worlds} worlds" for worlds in WORLDS)
        + " |"
    )
    yield f"|{'---|' * (2 * len(WORLDS) + 1)}"
    for name, by_worlds in covered.items():
        cells = [_percent(each.get(worlds, [])) for each in (by_worlds, wrong[name]) for worlds in WORLDS]
        yield f"| {name} | {' | '.join(cells)} |"


def _percent(found: list[bool]) -> str:
    return f"{100 * float(np.mean(found)):.1f}" if found else ""


if __name__ == "__main__":
    for line in table(int(sys.argv[1]) if len(sys.argv) > 1 else 1000):
        print(line, flush=True)
