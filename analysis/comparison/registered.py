"""Whether a comparison is the one that the run registered before its first episode, or exploratory."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from hermes_lab.analysis.comparison.sequential import Monitor, SequentialResult, monitor_of
from hermes_lab.analysis.comparison.wording import p_text, points
from hermes_lab.analysis.data.columns import read_columns
from hermes_lab.manifest import read_manifest
from hermes_lab.registration import Primary, RegisteredPlan, read_plan


@dataclass(frozen=True)
class Registered:
    """What the plan of a run says about a comparison of two of its arms. `plan` is None if none was registered.

    `result` is that of the primary comparison, unit by unit: while the run is under way, and if it has a stopping rule.
    """

    plan: RegisteredPlan | None
    late: bool = False
    """Whether an episode started before the plan was registered."""
    primary: bool = False
    """Whether the comparison is the primary one."""
    result: SequentialResult | None = None
    units: int = 0
    """Units that are complete, and that all before are."""

    @property
    def decisive(self) -> SequentialResult | None:
        """The result that is the registered analysis; None if that is one look at the end."""
        return self.result if self.result and self.result.primary.stop != "never" else None

    def lines(self) -> list[str]:
        """What `compare` says about the plan, a line each."""
        if self.plan is None:
            return ["no plan was registered in this run: the comparison is exploratory"]
        when = _minute(self.plan.registered_at)
        which = f"{when}, plan.json {self.plan.digest[:8]}"
        if self.late:
            return [f"exploratory: the plan was registered after the first episode had started ({which})"]
        primary = self.plan.primary
        if primary is None or not self.primary:
            return [f"exploratory: the registered comparison is {_sides(primary)} ({which})"]
        lines = [
            f"registered before the first episode ({which}): {_sides(primary)}, {_outcome(primary)}, over "
            f"{_units(primary.units, primary.over)} of {primary.pairs} pairs; {self.plan.analysis}",
            "not registered, so exploratory: all other metrics, parts and arms",
        ]
        return lines + self._look(primary)

    def _look(self, primary: Primary) -> list[str]:
        if self.result:
            lead = "" if self.result.primary.stop == "never" else "the registered analysis: "
            tail = "; p and interval above are for one look at the end" if lead == "" else ""
            return [f"{lead}at any look, {look_text(self.result)}{tail}"]
        if self.units:
            return []
        one = primary.over.removesuffix("s")
        return [f"no {one} is complete yet, so there is nothing to look at early"] if primary.sequential else []

    def report(self) -> dict[str, Any]:
        """For JSON."""
        look = self.result and self.result.look._asdict() | {
            "p_value": self.result.look.p_value,
            "shown": self.result.look.shown,
            "pairs": self.result.pairs,
            "decision": self.result.decision and str(self.result.decision),
        }
        return {
            "plan": self.plan and msgspec.to_builtins(self.plan),
            "primary": self.primary and not self.late,
            "look": look,
        }


def registered(run: Path, before: str, after: str, *, weights: bool = False) -> Registered:
    """What the plan of `run` says about a comparison of two of its arms, or of its `weights`.

    Raises `ConfigError` if the plan was changed.
    """
    plan = read_plan(run)
    if plan is None:
        return Registered(None)
    primary = plan.primary
    is_primary = primary is not None and (
        primary.question == "weights" if weights else (before, after) == (primary.before, primary.after)
    )
    starts, finished = [], 0
    for started, status in read_columns(run, ["started_at", "status"]):
        starts.append(started)
        finished += status == "ok"
    late = bool(starts) and min(starts)[:_SECONDS] < plan.registered_at[:_SECONDS]
    early = primary is not None and (primary.stop != "never" or finished < read_manifest(run).wanted)
    monitor: Monitor | None = monitor_of(run) if is_primary and early else None
    if monitor is None:
        return Registered(plan, late, is_primary, units=1)
    return Registered(plan, late, is_primary, monitor.result(), monitor.units)


def look_text(result: SequentialResult) -> str:
    """`over the first 9 of 20 worlds: +23 points (95 % interval 4 to 41), p = 0.03; decided ...`."""
    look, primary = result.look, result.primary
    decided = f"; {result.decision}" if result.decision else ""
    return (
        f"over the first {result.units} of {_units(primary.units, primary.over)}: "
        f"{points(look.difference, look.interval)}, {p_text(look.p_value)}{decided}"
    )


def _sides(primary: Primary | None) -> str:
    if primary is None:
        return "none"
    if primary.question == "skills and weights":
        return "weights and skills"
    return f"{primary.before} -> {primary.after}"


def _outcome(primary: Primary) -> str:
    where = "on held-out tasks after learning" if primary.phase == "heldout" else "while learning"
    return f"solved at the first submission {where}"


def _units(number: int, over: str) -> str:
    one = "world" if over == "worlds" else "lane"
    return f"{number} {one}{'s' * (number != 1)}"


def _minute(time: str) -> str:
    return datetime.fromisoformat(time).strftime("%Y-%m-%d %H:%M UTC")


_SECONDS = len("2026-01-01T00:00:00")
