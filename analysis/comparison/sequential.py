"""The registered comparison, looked at unit by unit: the decision to stop, and the result that is valid at any time."""

from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from hermes_lab.analysis.data.columns import read_columns
from hermes_lab.analysis.stats.anytime import ENOUGH, Look, bets_for, excludes, log_evidence, look
from hermes_lab.analysis.stats.paired import FloatArray
from hermes_lab.lane import lane_key
from hermes_lab.registration import Primary, Stop, read_plan


@dataclass(frozen=True)
class Decision:
    """The comparison was decided after the first `after` of `of` units (`over` names their kind)."""

    why: Literal["shown", "hopeless"]
    after: int
    of: int
    over: str
    effect: float
    """The effect that the plan expected."""

    def __str__(self) -> str:
        said = f"decided after {self.after} of {self.of} {self.over}: "
        if self.why == "shown":
            return f"{said}a difference is shown"
        return f"{said}the expected effect of {100 * self.effect:+.0f} points is excluded"


class _Unit(NamedTuple):
    """Finished episodes of both sides by task: whether they were solved, None if that was not judged."""

    before: dict[Hashable, bool | None]
    after: dict[Hashable, bool | None]


class Monitor:
    """Collects the outcomes of the primary comparison. A unit counts once all of its pairs, and all units before it,
    are finished: the order is fixed, so a unit's outcome cannot decide whether it counts."""

    def __init__(self, primary: Primary) -> None:
        self.primary = primary
        self._units: dict[int, _Unit] = defaultdict(lambda: _Unit({}, {}))
        self._whole = 0
        self._sums: list[int] = []
        self._sizes: list[int] = []
        self._before = self._after = 0
        self._decision: Decision | None = None
        self._bets = bets_for(primary.baseline, primary.effect)

    def add(self, lane: str, phase: str, round_: int, task: Hashable, success: bool | None) -> None:
        """Adds a finished episode; one that the comparison does not use is ignored. A repeated one counts once."""
        primary, place = self.primary, lane_key(lane)
        if place is None or phase != primary.phase or place.arm not in (primary.before, primary.after):
            return
        if phase == "heldout" and round_ != primary.round:
            return
        unit = self._units[primary.unit(place.replicate, place.world)]
        side = unit.before if place.arm == primary.before else unit.after
        side.setdefault((place.replicate, place.world, round_, task), success)
        while self._whole < primary.units and self._is_whole(self._whole):
            self._close(self._units[self._whole])
            self._whole += 1

    @property
    def units(self) -> int:
        """Units that count."""
        return self._whole

    @property
    def decision(self) -> Decision | None:
        """The decision, if the rule of the plan has made one."""
        return self._decision

    def result(self) -> "SequentialResult | None":
        """The result so far; None before the first unit with a pair."""
        if not sum(self._sizes):
            return None
        sums_C, sizes_C = self._measured()
        pairs = int(sizes_C.sum())
        found = look(sums_C, sizes_C, self._bets)
        return SequentialResult(found, self.primary, self._whole, pairs, self._before, self._after, self._decision)

    def _is_whole(self, number: int) -> bool:
        return all(len(side) >= self.primary.pairs for side in self._units[number])

    def _close(self, unit: _Unit) -> None:
        pairs = [
            (unit.before[task], unit.after[task])
            for task in unit.before.keys() & unit.after.keys()
            if unit.before[task] is not None and unit.after[task] is not None
        ]
        before, after = (sum(map(bool, side)) for side in ([was for was, _ in pairs], [now for _, now in pairs]))
        self._sums.append(after - before)
        self._sizes.append(len(pairs))
        self._before += before
        self._after += after
        if self._decision is None and any(self._sizes):
            self._decision = self._decide(self.primary.stop)

    def _decide(self, stop: Stop) -> Decision | None:
        sums_C, sizes_C = self._measured()
        primary, enough = self.primary, np.log(ENOUGH)
        made: list[Literal["shown", "hopeless"]] = []
        if stop in ("shown", "either") and log_evidence(sums_C, self._bets)[-1] >= enough:
            made.append("shown")
        if stop in ("hopeless", "either") and excludes(sums_C, sizes_C, self._bets, primary.effect)[-1] >= enough:
            made.append("hopeless")
        over = primary.over
        return Decision(made[0], len(self._sums), primary.units, over, primary.effect) if made else None

    def _measured(self) -> tuple[FloatArray, FloatArray]:
        """The sums and sizes of units with a judged pair."""
        sizes_C = np.array(self._sizes, dtype=np.float64)
        return np.array(self._sums, dtype=np.float64)[sizes_C > 0], sizes_C[sizes_C > 0]


@dataclass(frozen=True)
class SequentialResult:
    """The primary comparison after the first `units` units, over `pairs` pairs: solved on either side, the look, and
    the decision of the stopping rule, if there is one."""

    look: Look
    primary: Primary
    units: int
    pairs: int
    before: int
    after: int
    decision: Decision | None


def monitor_of(run: Path) -> Monitor | None:
    """The monitor of a run after all of its finished episodes; None without a registered comparison to look at."""
    plan = read_plan(run)
    if plan is None or plan.primary is None or not plan.primary.sequential:
        return None
    monitor = Monitor(plan.primary)
    columns = ["lane", "phase", "round", "suite", "task_id", "sample", "status", "success"]
    for lane, phase, round_, suite, task, sample, status, success in read_columns(run, columns):
        if status == "ok":
            monitor.add(lane, phase, round_, (suite, task, sample), success)
    return monitor


def stopped_early(run: Path) -> Decision | None:
    """The decision that ended a run before all of its episodes; None if none did."""
    plan = read_plan(run)
    if plan is None or plan.primary is None or plan.primary.stop == "never":
        return None
    monitor = monitor_of(run)
    return monitor.decision if monitor else None
