"""The registered comparison, looked at unit by unit: the decision to stop, and the result that is valid at any time."""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from hermes_lab.analysis.data.columns import read_columns
from hermes_lab.analysis.stats.anytime import Look, bets_for, look
from hermes_lab.lane import lane_key
from hermes_lab.manifest import RunManifest, read_manifest
from hermes_lab.registration import Primary, is_extended, may_stop, read_plan


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
    are finished: the order is fixed, so a unit's outcome cannot decide whether it counts. After a decision no further
    one does."""

    def __init__(self, primary: Primary) -> None:
        self.primary = primary
        self.decision: Decision | None = None
        """Made by the stopping rule; None while the experiment goes on."""
        self._units: dict[int, _Unit] = defaultdict(lambda: _Unit({}, {}))
        self._sums: list[int] = []
        self._sizes: list[int] = []
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
        while self.decision is None and self.units < primary.units and self._is_whole(self.units):
            self._close(self._units[self.units])

    def close(self) -> None:
        """Counts the units that will never be whole, with the pairs they have; for a run of which nothing more can be
        expected. No decision is made: nothing was left to stop."""
        while self.decision is None and self.units < self.primary.units:
            self._sum(self._units[self.units])

    @property
    def units(self) -> int:
        """Units that count."""
        return len(self._sums)

    def look(self) -> Look | None:
        """The result over the units that count; None without a judged pair."""
        sizes_C = np.array(self._sizes, dtype=np.float64)
        sums_C = np.array(self._sums, dtype=np.float64)
        return look(sums_C[sizes_C > 0], sizes_C[sizes_C > 0], self._bets) if sizes_C.any() else None

    def _is_whole(self, number: int) -> bool:
        return all(len(side) >= self.primary.pairs for side in self._units[number])

    def _close(self, unit: _Unit) -> None:
        self._sum(unit)
        if self.primary.stop != "never" and (found := self.look()):
            self.decision = self._decide(found)

    def _sum(self, unit: _Unit) -> None:
        changes = [
            int(after) - int(before)
            for task, before in unit.before.items()
            if before is not None and (after := unit.after.get(task)) is not None
        ]
        self._sums.append(sum(changes))
        self._sizes.append(len(changes))

    def _decide(self, found: Look) -> Decision | None:
        primary, effect = self.primary, self.primary.effect
        short = found.interval.high < effect if effect > 0 else found.interval.low > effect
        why: Literal["shown", "hopeless"]
        if found.shown and primary.stop in ("shown", "either"):
            why = "shown"
        elif short and primary.stop in ("hopeless", "either"):
            why = "hopeless"
        else:
            return None
        return Decision(why, self.units, primary.units, primary.over, effect)


class Progress(NamedTuple):
    """How far a run is. `monitor` is None without a registered comparison that can be looked at."""

    monitor: Monitor | None
    finished: int
    wanted: int
    first_started: str
    """When the first episode started; "" without one."""
    blocked: int = 0
    """Episodes that errored, or that cannot run since one before them in their lane errored."""

    @property
    def ended(self) -> Decision | None:
        """The decision that ended the run before all of its episodes; None if none did."""
        return self.monitor.decision if self.monitor and self.finished < self.wanted else None

    @property
    def under_way(self) -> bool:
        """Whether episodes are missing that no stopping rule has made superfluous and no error holds up."""
        return self.finished + self.blocked < self.wanted and not self.ended


PROGRESS = ["lane", "phase", "round", "suite", "task_id", "sample", "status", "success", "started_at"]
"""The columns of `load_episodes` that `progress_of` needs."""


def progress_of(run: Path, rows: Iterable[tuple[Any, ...]]) -> Progress:
    """How far a run is, from the `PROGRESS` columns of its episodes. Raises `ConfigError` for a changed plan."""
    plan, manifest = read_plan(run), read_manifest(run)
    primary = plan.primary if plan else None
    looks = primary and primary.sequential and not is_extended(plan, manifest.wanted)
    monitor = Monitor(primary) if primary and looks else None
    done: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    held_up: set[str] = set()
    first = ""
    for lane, phase, round_, suite, task, sample, status, success, started in rows:
        first = min(first or started, started)
        if status == "ok":
            done[lane] += 1
            if monitor:
                monitor.add(lane, phase, round_, (suite, task, sample), success)
        elif status == "errored":
            errors[lane] += 1
            if phase == "learn":  # a held-out episode holds nothing up
                held_up.add(lane)
    blocked = 0
    if plan and errors:  # a run without a plan has no registered comparison to hold up
        whole = _per_lane(manifest)
        blocked = sum(whole - done[lane] if lane in held_up else count for lane, count in errors.items())
    found = Progress(monitor, done.total(), manifest.wanted, first, blocked)
    if monitor and not found.under_way:
        monitor.close()
    return found


def _per_lane(manifest: RunManifest) -> int:
    """The episodes of each lane of an experiment."""
    learning = manifest.config["learning"]
    weights = max(1, len(learning["adapters"]))
    lanes: int = len(learning["arms"]) * learning["replicates"] * learning["worlds"] * weights
    return manifest.wanted // lanes


def stopped_early(run: Path) -> Decision | None:
    """The decision by which a stopping rule ended a run before all of its episodes; None if none did."""
    return progress_of(run, read_columns(run, PROGRESS)).ended if may_stop(run) else None


def whole_lanes(run: Path, frame: pd.DataFrame) -> pd.DataFrame:
    """The frame without the lanes that a stopping rule cut short, which would limit the experience that all lanes of
    the run have."""
    mine = frame["run"] == str(run)
    if not mine.any() or not stopped_early(run):
        return frame
    reached = frame[mine].groupby("lane")["experience"].max()
    whole = reached.index[reached == reached.max()]
    return frame[~mine | frame["lane"].isin(whole)]
