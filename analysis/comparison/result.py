"""The result of a comparison, and its wording."""

import json
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from hermes_lab.analysis.comparison.decomposition import TwoByTwo
from hermes_lab.analysis.comparison.pairs import METRICS
from hermes_lab.analysis.comparison.registered import Registered
from hermes_lab.analysis.comparison.slope import Slope
from hermes_lab.analysis.comparison.wording import points, shown, tested
from hermes_lab.analysis.skill_effects.treatment import Treatment, sentences
from hermes_lab.analysis.stats.aggregate import Aggregate
from hermes_lab.analysis.stats.intervals import Interval, Rate
from hermes_lab.analysis.stats.paired import LEVEL
from hermes_lab.analysis.stats.power import Lanes
from hermes_lab.analysis.stats.rates import MIN_UNITS, Over
from hermes_lab.text.counted import counted


@dataclass(frozen=True)
class MetricComparison:
    """One metric before and after, over pairs.

    `interval` is of the difference of the two rates, `standard_error` the clustered one (None for a single unit).
    `p_value` is the mid-p of the test that flips the signs of whole units `over` (`hermes_lab.analysis.stats.paired`);
    `mcnemar` is McNemar's mid-p, which treats all pairs as independent. `p_adjusted` is Holm-adjusted over the
    family of tests reported together. `pair_correlation` is between the two outcomes of a pair (None if one never
    varies), `lane_correlation` the intraclass correlation of changes in a lane. `clusters` describes each clustering,
    None where every unit has one pair. `unpaired` counts excluded episodes: counterpart missing, errored or without
    this metric. `part` is the part of the run, "" without held-out tasks.
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
    """The number of pairs and their clusters: `60 pairs in 20 worlds`."""
    limit: str
    """The units the result is limited to: `these 5 worlds only`; "" if it generalises to other worlds."""
    clusters: tuple[Lanes | None, ...]
    standard_error: float | None
    unpaired: int
    pair_correlation: float | None
    lane_correlation: float
    part: str = ""
    looked: str = ""
    """The units that p and interval are over, if they are valid at any look: `the first 8 of 20 worlds`."""

    @property
    def difference(self) -> float:
        """After minus before, in [-1, 1]."""
        return self.after.value - self.before.value

    @property
    def shown(self) -> bool:
        """Whether the difference is significant: the adjusted p is below 0.05."""
        return self.p_adjusted < LEVEL

    def sentence(self) -> str:
        """The verdict in one line."""
        verdict = f"{shown(self.p_value, self.p_adjusted)}{points(self.difference, self.interval)}"
        said = tested(self.p_value, self.p_adjusted, f"{self.family} tests") + self.at_any_look()
        why = "episodes without a call or a counterpart" if self.metric == "first_call_ok" else "unpaired episodes"
        left_out = f"; {self.unpaired} {why} excluded" if self.unpaired else ""
        return f"{self.rates()}, {verdict}, {said}{left_out}"

    def at_any_look(self) -> str:
        """What follows a p that is valid at any look."""
        return " at any look" if self.looked else ""

    def rates(self) -> str:
        """The two rates."""
        return f"{METRICS[self.metric]}: {self.before} -> {self.after}"

    def reach(self) -> str:
        """What p and interval are clustered by, and so what they generalise to."""
        if self.looked:
            return f"p and interval of the registered comparison: valid at any look, over {self.looked}"
        if self.over == "worlds":
            return f"p and interval: clustered by world ({self.worlds} worlds)"
        if self.over == "tasks" and not self.limit:
            return f"p and interval: over {counted(self.tasks, 'task')}, samples of a task together"
        if self.over == "tasks":
            few = "one lane" if self.lanes == 1 else f"{self.lanes} lanes"
            tasks = f"{counted(self.tasks, 'task')} of {few}"
            these = "this lane" if self.lanes == 1 else "these lanes"
            return (
                f"p and interval: over {tasks}; fewer than {MIN_UNITS} lanes: covers {these} only, "
                "without variation between lanes"
            )
        which = f"by lane ({self.lanes} lanes, replicate x world)"
        if self.over == "lanes and tasks":
            which += f" and by task ({self.tasks} shared tasks), larger p and wider interval"
        these = "this world" if self.worlds == 1 else f"these {self.worlds}"
        return f"p and interval: clustered {which}; fewer than {MIN_UNITS} worlds: covers {these} only"

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        names = ("metric", "part", "difference", "interval", "p_value", "p_adjusted", "family", "mcnemar", "over")
        likeness = {"pair_correlation": self.pair_correlation, "lane_correlation": self.lane_correlation}
        rates = {"before": self.before.to_dict(), "after": self.after.to_dict()}
        numbers = ("gained", "lost", "shown", "worlds", "lanes", "tasks", "standard_error", "unpaired")
        counts = {name: getattr(self, name) for name in numbers}
        return {name: getattr(self, name) for name in names} | rates | counts | likeness


class Flips(NamedTuple):
    """Tasks of which more samples were solved after than before, and fewer."""

    gained: tuple[str, ...]
    lost: tuple[str, ...]

    def lines(self) -> list[str]:
        """A line for each kind, with the first tasks."""
        named = (("gained", self.gained), ("lost", self.lost))
        return [f"{what}: {_first_of(tasks)}" for what, tasks in named]


def _first_of(tasks: tuple[str, ...]) -> str:
    if not tasks:
        return "no task"
    more = f", and {len(tasks) - _NAMED:,} more" if len(tasks) > _NAMED else ""
    return f"{counted(len(tasks), 'task')}: {', '.join(tasks[:_NAMED])}{more}"


_NAMED = 5


@dataclass(frozen=True)
class Cell:
    """One cell of weights x skills. `weights` is the adapter, or the model without one."""

    weights: str
    skills: Literal["off", "on"]
    success: Rate
    run: str = ""
    """The run, if both have the same weights."""

    def sentence(self) -> str:
        """The cell in one line."""
        name = f"{self.run}: {self.weights}" if self.run else self.weights
        return f"{name}, skills {self.skills}: {self.success} solved at the first submission"


@dataclass(frozen=True)
class Change:
    """One side's change between its first and its last held-out check (at `when`), on the same tasks."""

    side: str
    when: str
    comparison: MetricComparison

    def sentence(self) -> str:
        """The change in one line."""
        return f"{self.side}, the same held-out tasks before -> {self.when}: {self.comparison.sentence()}"


class Difference(NamedTuple):
    """A field of the configuration in which two runs differ."""

    field: str
    before: Any
    after: Any

    def __str__(self) -> str:
        return f"{self.field}: {_shown(self.before)} -> {_shown(self.after)}"


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) and value else json.dumps(value, default=str)
    return text if len(text) <= _VALUE else f"{text[: _VALUE - 3]}..."


_VALUE = 60
"""Characters of a field's value; `--json` has all."""


@dataclass(frozen=True)
class Comparison:
    """The metrics that both sides have, by part of the run, the most interesting first.

    `changes` has each side's improvement on its held-out tasks. `cells` and `decomposition` are weights x skills, if
    both vary. Holm's adjustment is over three families: the headlines of all arms reported together, the `changes`,
    and all other metrics and parts.
    """

    before: str
    after: str
    comparisons: tuple[MetricComparison, ...]
    cells: tuple[Cell, ...] = ()
    differences: tuple[Difference, ...] = ()
    """The configuration's fields in which two runs differ, if they affect results."""
    changes: tuple[Change, ...] = ()
    decomposition: TwoByTwo | None = None
    slope: Slope | None = None
    """Whether one side learned faster."""
    aggregates: tuple[Aggregate, ...] = ()
    """Both sides' interquartile mean over worlds, or lanes; none with fewer than 6 of either."""
    notes: tuple[str, ...] = ()
    """Missing and errored episodes, a line each."""
    treatments: tuple[Treatment, ...] = ()
    """What the agent was given in each arm with skills, if arms are compared."""
    absences: tuple[str, ...] = ()
    """Arms of two compared runs whose treatment did not happen."""
    agents: tuple[str, ...] = ()
    """What worked in each run, a line each; none if it was the lab's own loop in all."""
    early: tuple[str, ...] = ()
    """Which of two compared runs is under way or was free to end early, a line each: p and interval ignore it."""
    pooled: str = ""
    """Which arms of two runs are compared as one; "" if it is one arm."""
    flips: Flips | None = None
    """The tasks that changed between two plain runs, in the headline."""
    untreated: str = ""
    """Why the arms do not differ in treatment, so that their difference measures nothing; "" if they do."""
    registered: Registered | None = None
    """What the run's plan says about this comparison; None for two runs."""

    @property
    def headline(self) -> MetricComparison:
        """Solved at the first submission, in the most interesting part; if nothing was judged, the first metric."""
        return next((c for c in self.comparisons if c.metric == "success"), self.comparisons[0])

    @property
    def unmeasured(self) -> str:
        """Why there is no finding; "" if there is. Skills that were listed and never loaded leave one only if the
        difference is shown."""
        if self.registered and self.registered.pending:
            return self.registered.pending
        if self.untreated or self.headline.shown:
            return self.untreated
        return next((said for each in self._after() if (said := each.unread())), "")

    def caveats(self) -> list[str]:
        """What limits the finding: lanes without the treatment, and a difference without a loaded skill."""
        told = [self.pooled, *self.absences, *self.early, *(each.caveat() for each in self.treatments)]
        if self.headline.shown:
            told += [f"{said}: not an effect of their content" for each in self._after() if (said := each.unread())]
        if self.registered:
            told.append(self.registered.status)
        return [each for each in told if each]

    def _after(self) -> list[Treatment]:
        return [each for each in self.treatments if each.arm == self.after]

    def _plan(self) -> list[str]:
        return self.registered.lines() if self.registered else []

    def _too_few(self) -> str:
        """A note if so few units cannot give a Holm-adjusted p below 0.05 at all."""
        found = self.headline
        units = found.worlds if found.over == "worlds" else found.lanes
        families = [comparison.family for comparison in self.comparisons]
        tests = max([*families, self.decomposition.family] if self.decomposition else families)
        least = 2.0**-units
        if found.over == "tasks" or least * tests < 0.05:
            return ""
        what = "worlds" if found.over == "worlds" else "lanes"
        return f"{units} {what} are too few for {tests} tests: no Holm-adjusted p can fall below {least * tests:.2g}"

    def to_dict(self) -> dict[str, Any]:
        """The comparison for JSON."""
        return {
            "before": self.before,
            "after": self.after,
            "differences": [difference._asdict() for difference in self.differences],
            "comparisons": [comparison.to_dict() for comparison in self.comparisons],
            "cells": [
                {"weights": c.weights, "skills": c.skills, "run": c.run, "success": c.success.to_dict()}
                for c in self.cells
            ],
            "changes": [{"side": change.side} | change.comparison.to_dict() for change in self.changes],
            "decomposition": self.decomposition.to_dict() if self.decomposition else None,
            "slope": self.slope.to_dict() if self.slope else None,
            "aggregates": [aggregate.to_dict() for aggregate in self.aggregates],
            "treatments": [treatment.to_dict() for treatment in self.treatments],
            "unmeasured": self.unmeasured,
            "notes": self.notes,
            "agents": self.agents,
            "registered": self.registered.to_dict() if self.registered else None,
            "flips": self.flips._asdict() if self.flips else None,
        }

    def lines(self) -> list[str]:
        """The verdicts, then the cells of weights x skills; the rates alone if nothing is measured."""
        given = [f"  {sentence}" for sentence in sentences(self.treatments)]
        if self.unmeasured:
            rates = [f"{c.part}{', ' if c.part else ''}{c.rates()}" for c in self.comparisons]
            weights = [f"weights: {self.decomposition.weights}"] if self.decomposition else []
            said = [f"{self.before} -> {self.after}", *(f"  {line}" for line in (*rates, *weights))]
            return [*said, *given, *(f"  {note}" for note in (*self._plan(), *self.agents, *self.notes))]
        lines: list[str] = []
        for part in dict.fromkeys(comparison.part for comparison in self.comparisons):
            lines.append(f"{self.before} -> {self.after}{', ' if part else ''}{part}")
            lines += [f"  {comparison.sentence()}" for comparison in self.comparisons if comparison.part == part]
        lines += [f"  {line}" for line in (self.headline.reach(), self._too_few(), *self._plan()) if line]
        lines += [f"  {line}" for line in (self.flips.lines() if self.flips else ())]
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
        lines += given
        lines += [f"  {note}" for note in (*self.agents, *self.notes)]
        return lines + [f"  the runs differ in {difference}" for difference in self.differences]
