"""What looking after every world costs and saves: the anytime-valid test beside the one with one look at the end.

    python tests/simulations/peeking.py 10000

An experiment is planned for the effect that its fixed test shows with power .8. Tasks differ in difficulty by 1.2
logits, and worlds by `luck` logits, drawn anew for each arm. Array names end in their axes: S simulations, C worlds.
"""

import sys
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hermes_lab.analysis.stats.anytime import ENOUGH, bets_for, log_evidence, rejected
from hermes_lab.analysis.stats.paired import LEVEL, FloatArray, Integers, change_interval
from hermes_lab.analysis.stats.power import flip_p_values

DIFFICULTY = 1.2
BASELINE = 0.5
LOG_ENOUGH = np.log(ENOUGH)


class Design(NamedTuple):
    """Worlds, tasks in each, and how much worlds differ, in logits."""

    worlds: int
    tasks: int
    luck: float


DESIGNS = (Design(6, 12, 0), Design(12, 12, 0), Design(12, 12, 0.7), Design(24, 12, 0), Design(24, 12, 0.7))


class Row(NamedTuple):
    """The measured shares and means of a design; `needed` is the number of worlds with power .8, `mean` over runs that
    may be as long as that, in shares of the fixed design."""

    effect: float
    false: float
    false_fixed: float
    false_peeking: float
    coverage: float
    power: float
    needed: float
    mean: float
    mean_twice: float
    power_twice: float
    hopeless_null: float
    hopeless_wrong: float


def sums_of(design: Design, effect: float, count: int, draw: np.random.Generator, *, worlds: int = 0) -> Integers:
    """The sums of changes by world, shape (count, worlds), of experiments with a true effect."""
    shape = (count, worlds or design.worlds, design.tasks)
    difficulty = draw.normal(0, DIFFICULTY, shape)
    solved = []
    for rate in (BASELINE, BASELINE + effect):
        luck = draw.normal(0, design.luck, (*shape[:2], 1))
        logit = _logit_for(rate, design.luck) + difficulty + luck
        solved.append(draw.random(shape) < 1 / (1 + np.exp(-logit)))
    return (solved[1].astype(np.int64) - solved[0]).sum(axis=2)


def _logit_for(rate: float, luck: float) -> float:
    """The logit at which tasks and worlds of all difficulties are solved at this rate on average."""
    spread = np.random.default_rng(0).normal(0, np.hypot(DIFFICULTY, luck), 40_000)
    low, high = -10.0, 10.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if (1 / (1 + np.exp(-middle - spread))).mean() < rate else (low, middle)
    return low


def planned_effect(design: Design, draw: np.random.Generator) -> float:
    """The effect that the fixed test shows with power .8."""
    low, high = 0.01, 0.48
    for _ in range(10):
        middle = (low + high) / 2
        shown = (flip_p_values(sums_of(design, middle, 4000, draw)) < LEVEL).mean()
        low, high = (middle, high) if shown < 0.8 else (low, middle)
    return middle


def first_hit(log_S_C: FloatArray) -> npt.NDArray[np.float64]:
    """The number of worlds until the evidence is enough; infinite if it never is."""
    hit_S_C = log_S_C >= LOG_ENOUGH
    return np.where(hit_S_C.any(axis=1), hit_S_C.argmax(axis=1) + 1.0, np.inf)


def row_of(design: Design, count: int, seed: int = 0) -> Row:
    """All figures of a design, over `count` experiments without an effect and at most 4,000 of each other kind."""
    draw, some = np.random.default_rng(seed), min(count, 4000)
    effect = planned_effect(design, draw)
    bets, worlds = bets_for(BASELINE, effect), design.worlds
    null = sums_of(design, 0.0, count, draw)
    planned = sums_of(design, effect, some, draw, worlds=3 * worlds)
    most = min(2 * effect, 0.97 - BASELINE)
    twice = first_hit(log_evidence(sums_of(design, most, some, draw), bets))
    at_plan = first_hit(log_evidence(planned, bets))
    needed = float(np.quantile(at_plan, 0.8, method="inverted_cdf"))
    fixed = np.stack([flip_p_values(null[:, :looked]) for looked in range(1, worlds + 1)], axis=1)
    sizes = np.full(worlds, float(design.tasks))
    hopeless = [short_of(each, sizes, bets, effect).mean() for each in (null[:some], planned[:, :worlds])]
    return Row(
        effect=effect,
        false=float((first_hit(log_evidence(null, bets)) <= worlds).mean()),
        false_fixed=float((fixed[:, -1] < LEVEL).mean()),
        false_peeking=float((fixed < LEVEL).any(axis=1).mean()),
        coverage=1 - float(rejected(planned[:, :worlds], sizes, bets, effect).any(axis=1).mean()),
        power=float((at_plan <= worlds).mean()),
        needed=needed / worlds,
        mean=float(np.minimum(at_plan, needed).mean()) / worlds,
        mean_twice=float(np.minimum(twice, worlds).mean()) / worlds,
        power_twice=float((twice <= worlds).mean()),
        hopeless_null=float(hopeless[0]),
        hopeless_wrong=float(hopeless[1]),
    )


def short_of(sums: Integers, sizes: FloatArray, bets: FloatArray, effect: float) -> npt.NDArray[np.bool_]:
    """Whether `hopeless` would end each experiment: some look leaves out the effect, and is below it."""
    below = np.cumsum(sums, axis=1) < effect * np.cumsum(sizes)
    return np.asarray((rejected(sums, sizes, bets, effect) & below).any(axis=1))


class Mixed(NamedTuple):
    """Worlds of two kinds: a share of them with a change of `high`, the others with `low`, from a rate of `base`."""

    share: float
    high: float
    low: float
    base: float

    @property
    def mean(self) -> float:
        """The mean change."""
        return self.share * self.high + (1 - self.share) * self.low

    def __str__(self) -> str:
        return f"{self.share:.0%} of worlds {100 * self.high:+.0f}, others {100 * self.low:+.0f}"


MIXED = (Mixed(0.25, 0.8, 0, 0.1), Mixed(0.75, 0.6, 0, 0.2), Mixed(0.5, 0.3, -0.3, 0.4), Mixed(0.2, 0.8, -0.2, 0.2))


def mixed_rows(count: int, tasks: int = 12, seed: int = 0) -> Iterator[str]:
    """The rows of the table for effects that differ between worlds."""
    for worlds in (12, 24):
        for kind in MIXED:
            draw = np.random.default_rng([worlds, seed])
            high = draw.random((count, worlds)) < kind.share
            rates = np.where(high, kind.base + kind.high, kind.base + kind.low)
            sums = draw.binomial(tasks, rates) - draw.binomial(tasks, kind.base, (count, worlds))
            sizes, bets = np.full(worlds, float(tasks)), bets_for(0.5, 0.2)
            shown = float((first_hit(log_evidence(sums, bets)) <= worlds).mean())
            fixed = float((flip_p_values(sums) < LEVEL).mean())
            missed = rejected(sums, sizes, bets, kind.mean)
            alone = np.mean([_covers(each, tasks, kind.mean) for each in sums[:1000]])
            cells = [f"{worlds}", str(kind), f"{100 * shown:.1f} %", f"{100 * fixed:.1f} %"]
            cells += [f"{100 * (1 - part):.1f} %" for part in (missed.any(axis=1).mean(), missed[:, -1].mean())]
            wrong = short_of(sums, sizes, bets, kind.mean).mean() if kind.mean > 0 else None
            yield f"| {' | '.join([*cells, f'{100 * alone:.1f} %', '' if wrong is None else f'{100 * wrong:.1f} %'])} |"


def _covers(sums: Integers, tasks: int, mean: float) -> bool:
    """Whether the interval for one look at the end contains the mean."""
    changes = np.concatenate([np.repeat([np.sign(each), 0], [abs(each), tasks - abs(each)]) for each in sums.tolist()])
    low, high = change_interval(changes.astype(np.int64), np.repeat(np.arange(len(sums)), tasks))
    return low <= mean <= high


def table(count: int) -> Iterator[str]:
    """The table of docs/statistics.md."""
    yield (
        "| worlds x tasks | luck | planned effect | false positives, anytime | one look | looking at the fixed p | "
        "coverage | power | worlds for power .8 | worlds run, planned effect | worlds run, twice | power, twice | "
        "hopeless if no effect | hopeless, wrongly |"
    )
    yield f"|{'---|' * 14}"
    for design in DESIGNS:
        row = row_of(design, count)
        cells = [f"{design.worlds} x {design.tasks}", f"{design.luck:g}", f"{100 * row.effect:+.0f}"]
        cells += [f"{100 * share:.1f} %" for share in row[1:5]]
        cells += [f"{row.power:.2f}", f"{row.needed:.2f} x", f"{row.mean:.2f} x", f"{row.mean_twice:.2f} x"]
        cells += [f"{row.power_twice:.2f}", f"{row.hopeless_null:.2f}", f"{100 * row.hopeless_wrong:.1f} %"]
        yield f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    experiments = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    for line in table(experiments):
        print(line, flush=True)
    print(
        "\n| worlds | effects | shown, any look | one look | coverage, any look | last look | one look | "
        f"hopeless, wrongly |\n|{'---|' * 8}"
    )
    for line in mixed_rows(experiments):
        print(line, flush=True)
