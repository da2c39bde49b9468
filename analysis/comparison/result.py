"""What a comparison found, and how it is said."""

from dataclasses import dataclass
from typing import Any, Literal

from hermes_lab.analysis.comparison.decomposition import TESTS, TwoByTwo
from hermes_lab.analysis.comparison.pairs import METRICS
from hermes_lab.analysis.comparison.slope import Slope
from hermes_lab.analysis.comparison.wording import is_shown, points, tested
from hermes_lab.analysis.stats.aggregate import Aggregate
from hermes_lab.analysis.stats.intervals import Interval, Rate
from hermes_lab.analysis.stats.paired import MIN_LANES, Over
from hermes_lab.analysis.stats.power import Lanes


@dataclass(frozen=True)
class Comparison:
    """One metric before and after, over pairs.

    `interval` is of the difference of the two rates, and `standard_error` its clustered one (None for a single unit).
    `p_value` is of the exact test that flips the signs of whole units: of `over`, see `analysis.paired.Units`;
    `mcnemar` is McNemar's exact p, which takes every pair as independent. `p_adjusted` is Holm's over the family of
    tests that this one is reported with. `pair_correlation` is that of the two outcomes of a pair (None where one never
    varies), `lane_correlation` that of two changes in a lane. `clusters` are the units by each way to make them, None
    where each holds one pair. `unpaired` counts episodes whose counterpart is missing, errored or without this metric,
    and which are left out. `part` is the part of the run: "" where it has no held-out tasks.
    """

    metric: str
    before: Rate
    after: Rate
    gained: int
    lost: int
    interval: Interval
    p_value: float
    mcnemar: float
    p_adjusted: float
    family: int
    over: Over
    worlds: int
    lanes: int
    tasks: int
    counted: str
    """The pairs and what they are in: `60 pairs in 20 worlds`."""
    limit: str
    """What alone is spoken of: `of these 5 worlds only`; "" where it is of all worlds of the kind."""
    clusters: tuple[Lanes | None, ...]
    standard_error: float | None
    unpaired: int
    pair_correlation: float | None
    lane_correlation: float
    part: str = ""

    @property
    def difference(self) -> float:
        """After less before, in [-1, 1]."""
        return self.after.value - self.before.value

    @property
    def shown(self) -> bool:
        """Whether a difference is shown: the interval leaves out zero, and the adjusted p is below 0.05."""
        return is_shown(self.p_adjusted, self.interval)

    def sentence(self) -> str:
        """The verdict in one line."""
        verdict = f"{'' if self.shown else 'no difference shown: '}{points(self.difference, self.interval)}"
        said = tested(self.p_value, self.p_adjusted, f"{self.family} tests")
        left_out = f"; {self.unpaired} episodes without a pair left out" if self.unpaired else ""
        return f"{METRICS[self.metric]}: {self.before} -> {self.after}, {verdict}, {said}{left_out}"

    def reach(self) -> str:
        """What p and interval are over, and so what they speak of."""
        if self.over == "worlds":
            return f"p and interval are over {self.worlds} worlds, all lanes of one together"
        if self.over == "tasks":
            few = "one lane" if self.lanes == 1 else f"{self.lanes} lanes"
            tasks = f"{self.tasks} task{'s' * (self.tasks > 1)} of {few}"
            speak = "they speak of no other, and the luck of a lane counts as a difference"
            return f"p and interval are over {tasks}: with fewer than {MIN_LANES} {speak}"
        which = f"{self.lanes} lanes (replicate x world)"
        if self.over == "lanes and tasks":
            which += f" and over the {self.tasks} tasks that these share, the larger p and the wider interval"
        few = "one world" if self.worlds == 1 else f"{self.worlds} worlds"
        return f"p and interval are over {which}: with {few}, fewer than {MIN_LANES}, they speak of no other"

    def report(self) -> dict[str, Any]:
        """For JSON."""
        names = ("metric", "part", "difference", "interval", "p_value", "p_adjusted", "family", "mcnemar", "over")
        likeness = {"pair_correlation": self.pair_correlation, "lane_correlation": self.lane_correlation}
        rates = {"before": self.before.report(), "after": self.after.report()}
        numbers = ("gained", "lost", "shown", "worlds", "lanes", "tasks", "standard_error", "unpaired")
        counts = {name: getattr(self, name) for name in numbers}
        return {name: getattr(self, name) for name in names} | rates | counts | likeness


@dataclass(frozen=True)
class Cell:
    """One corner of weights x skills. `weights` is the adapter, or the model where there is none."""

    weights: str
    skills: Literal["off", "on"]
    success: Rate

    def sentence(self) -> str:
        """The corner in one line."""
        return f"{self.weights}, skills {self.skills}: {self.success} solved at the first submission"


@dataclass(frozen=True)
class Change:
    """What a side gained between its first check and its last one, `when` that was, on the same held-out tasks."""

    side: str
    when: str
    comparison: Comparison

    def sentence(self) -> str:
        """The change in one line."""
        return f"{self.side}, the same held-out tasks before -> {self.when}: {self.comparison.sentence()}"


@dataclass(frozen=True)
class Report:
    """The metrics that both sides have, by part of the run, the one of most interest first.

    `changes` says of each side whether it got better on its held-out tasks. `cells` and `decomposition` are weights x
    skills, where both are factors. Holm's p is over three families: the headlines of all arms that are reported
    together, the `changes`, and all other metrics and parts.
    """

    before: str
    after: str
    comparisons: tuple[Comparison, ...]
    cells: tuple[Cell, ...] = ()
    differences: tuple[str, ...] = ()
    """The configuration's fields in which two runs differ."""
    changes: tuple[Change, ...] = ()
    decomposition: TwoByTwo | None = None
    slope: Slope | None = None
    """Whether one side learnt faster."""
    aggregates: tuple[Aggregate, ...] = ()
    """The interquartile mean over worlds, or lanes, of both sides; none with fewer than 6 of either."""
    notes: tuple[str, ...] = ()
    """What is missing: a line each."""

    @property
    def headline(self) -> Comparison:
        """Solved at the first submission, in the part of most interest; where none was judged, the first metric."""
        return next((c for c in self.comparisons if c.metric == "success"), self.comparisons[0])

    def _too_few(self) -> str:
        """Where the least p that flipping the signs of so few units can give is none that Holm leaves below 0.05."""
        found = self.headline
        units = found.worlds if found.over == "worlds" else found.lanes
        tests = max([comparison.family for comparison in self.comparisons] + [TESTS] * (self.decomposition is not None))
        least = 2.0 ** (1 - units)
        if found.over == "tasks" or least >= 0.05 or least * tests < 0.05:
            return ""
        what = "worlds" if found.over == "worlds" else "lanes"
        return f"{units} {what} are too few for {tests} tests at once: by Holm no p can fall below {least * tests:.2g}"

    def report(self) -> dict[str, Any]:
        """The comparison for JSON."""
        return {
            "before": self.before,
            "after": self.after,
            "differences": self.differences,
            "comparisons": [comparison.report() for comparison in self.comparisons],
            "cells": [{"weights": c.weights, "skills": c.skills, "success": c.success.report()} for c in self.cells],
            "changes": [{"side": change.side} | change.comparison.report() for change in self.changes],
            "decomposition": self.decomposition.report() if self.decomposition else None,
            "slope": self.slope.report() if self.slope else None,
            "aggregates": [aggregate.report() for aggregate in self.aggregates],
            "notes": self.notes,
        }

    def lines(self) -> list[str]:
        """The verdicts, then the corners of weights x skills."""
        lines: list[str] = []
        for part in dict.fromkeys(comparison.part for comparison in self.comparisons):
            lines.append(f"{self.before} -> {self.after}{', ' if part else ''}{part}")
            lines += [f"  {comparison.sentence()}" for comparison in self.comparisons if comparison.part == part]
        lines += [f"  {line}" for line in (self.headline.reach(), self._too_few()) if line]
        lines += [f"  {change.sentence()}" for change in self.changes]
        if not self.decomposition:
            lines += [f"  {cell.sentence()}" for cell in self.cells]
        if self.aggregates:
            over = self.aggregates[0].over
            lines.append(f"  interquartile mean over {over}: {', '.join(map(str, self.aggregates))}")
        if self.slope:
            lines.append(f"  {self.slope.sentence(self.before, self.after)}")
        if self.decomposition:
            lines += [f"  {line}" for line in self.decomposition.lines()]
        lines += [f"  {note}" for note in self.notes]
        return lines + ([f"  the runs differ in: {', '.join(self.differences)}"] if self.differences else [])
