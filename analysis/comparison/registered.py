"""Whether a comparison is the one that the run registered before its first episode, or exploratory."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd

from hermes_lab.analysis.comparison.sequential import PROGRESS, Progress, progress_of
from hermes_lab.analysis.stats.anytime import Look
from hermes_lab.errors import ConfigError
from hermes_lab.manifest import read_manifest
from hermes_lab.registration import FILE, Primary, RegisteredPlan, is_extended, missing_plan, read_plan
from hermes_lab.text.counted import counted

_SECONDS = len("2026-01-01T00:00:00")


@dataclass(frozen=True)
class Registered:
    """What the plan of a run says about a comparison of two of its arms. `plan` is None if none was registered."""

    plan: RegisteredPlan | None
    progress: Progress
    primary: bool = False
    """Whether the comparison is the primary one, in either direction."""
    backwards: bool = False
    rescored: bool = False

    @property
    def extended(self) -> bool:
        """Whether worlds were added to the run after its plan was registered."""
        return is_extended(self.plan, self.progress.wanted)

    @property
    def late(self) -> bool:
        """Whether an episode started before the plan was registered."""
        first = self.progress.first_started
        return self.plan is not None and first != "" and first[:_SECONDS] < self.plan.registered_at[:_SECONDS]

    @property
    def under_way(self) -> bool:
        """Whether more episodes may finish: see `Progress.under_way`."""
        return self.progress.under_way

    @property
    def looks(self) -> bool:
        """Whether the comparison counts only as far as it is valid at any look: the primary one of a run that is under
        way, or that has a stopping rule."""
        monitor = self.progress.monitor
        if not self.primary or monitor is None:
            return False
        return self.under_way or monitor.primary.stop != "never"

    @property
    def look(self) -> Look | None:
        """The result that is valid at any look; None if there is none yet, or if there is one look at the end."""
        monitor = self.progress.monitor
        found = monitor.look() if self.looks and monitor else None
        return found.reversed() if found and self.backwards else found

    @property
    def units(self) -> str:
        """What a look is over: `the first 8 of 20 worlds`."""
        monitor = self.progress.monitor
        if monitor is None:
            return ""
        primary = monitor.primary
        if monitor.units == primary.units:
            return f"all {counted_units(primary.units, primary.over)}"
        return f"the first {monitor.units} of {counted_units(primary.units, primary.over)}"

    @property
    def pending(self) -> str:
        """Why there is no result yet; "" if there is one."""
        monitor = self.progress.monitor
        if not self.looks or self.look or monitor is None:
            return ""
        if monitor.units:
            return f"none of {self.units} has a pair that was judged on both sides"
        one = monitor.primary.over.removesuffix("s")
        return f"no {one} is complete yet ({self._done()}), and a test at this point would not be valid"

    @property
    def status(self) -> str:
        """What limits the verdict: that the run is under way or extended, how and whether it was decided, what it
        lacks."""
        extended = "the run was extended, which p and interval do not account for" if self.extended else ""
        return "; ".join(filter(None, (self._decided(), extended, self._lacks())))

    def _lacks(self) -> str:
        """The episodes that errors cost a run that is over; "" if none."""
        if self.plan is None or self.under_way or self.progress.ended or not self.progress.blocked:
            return ""
        return (
            f"{self.progress.blocked:,} of {self.progress.wanted:,} episodes errored or could not follow one that did; "
            "their pairs are left out (--resume retries them)"
        )

    def _decided(self) -> str:
        monitor = self.progress.monitor
        if self.looks and monitor:
            if monitor.decision:
                return str(monitor.decision)
            if monitor.primary.stop == "never" or self.under_way:
                return f"the run is under way ({self._done()})"
            return f"undecided after all {counted_units(monitor.primary.units, monitor.primary.over)}"
        if self.plan and self.under_way:
            valid = "" if self.extended else ": p and interval are valid only once it is finished"
            return f"the run is under way ({self._done()}){valid}"
        stop = self.plan.primary.stop if self.plan and self.plan.primary else "never"
        if stop == "never":
            return ""
        return "the run was free to end early by its registered comparison, which p and interval do not account for"

    def _done(self) -> str:
        return f"{self.progress.finished:,} of {self.progress.wanted:,} episodes"

    def lines(self) -> list[str]:
        """What `compare` says about the plan, a line each."""
        if self.plan is None:
            return ["exploratory: the run registered no plan"]
        which = f"{_minute(self.plan.registered_at)}, {FILE} {self.plan.digest[:8]}"
        if self.rescored:
            return [f"exploratory: the run was rescored after its plan was registered ({which})"]
        if self.extended:
            return [
                f"exploratory: the run was extended to {self.progress.wanted:,} episodes after its plan was "
                f"registered for {self.plan.episodes:,} ({which})"
            ]
        if self.late:
            return [f"exploratory: the plan was registered after the first episode had started ({which})"]
        primary = self.plan.primary
        if primary is None or not self.primary:
            return [f"exploratory: the registered comparison is {_sides(primary)} ({which})"]
        units = counted_units(primary.units, primary.over)
        return [
            f"registered before the first episode ({which}): {_sides(primary)}, {_outcome(primary)}, over {units} of "
            f"{primary.pairs} pairs",
            f"registered analysis: {self.plan.analysis}",
            "exploratory, since not registered: all other arms, metrics and parts",
        ]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        look = self.look
        return {
            "plan": self.plan and msgspec.to_builtins(self.plan),
            "primary": self.primary and not self.late,
            "status": self.status,
            "look": look and look._asdict() | {"p_value": look.p_value, "shown": look.shown},
        }


def progress_in(run: Path, frame: pd.DataFrame) -> Progress:
    """As `progress_of`, from a frame of `load_episodes` with all episodes of the run."""
    rows = frame[PROGRESS].astype(object)
    return progress_of(run, rows.where(rows.notna(), None).itertuples(index=False, name=None))


def registered(run: Path, before: str, after: str, progress: Progress, *, weights: bool = False) -> Registered:
    """What the plan of `run` says about a comparison of two of its arms, or of its `weights`.

    Raises `ConfigError` if the plan was changed, or is missing in a run with a stopping rule.
    """
    plan, manifest = read_plan(run), read_manifest(run)
    rescored = manifest.rescored is not None
    if plan is None or plan.primary is None:
        stop = manifest.config.get("learning", {}).get("stop", {}).get("when", "never")
        if plan is None and stop != "never" and not rescored:
            raise ConfigError(missing_plan(run, stop))
        return Registered(plan, progress, rescored=rescored)
    primary = plan.primary
    sides = (primary.before, primary.after)
    same = primary.question == "weights" if weights else sides in ((before, after), (after, before))
    backwards = not weights and sides == (after, before)
    as_planned = not rescored and not is_extended(plan, progress.wanted)
    return Registered(plan, progress, same and as_planned, backwards, rescored)


def _sides(primary: Primary | None) -> str:
    if primary is None:
        return "none"
    if primary.question == "skills and weights":
        return "weights and skills"
    return f"{primary.before} -> {primary.after}"


def _outcome(primary: Primary) -> str:
    where = "on held-out tasks after learning" if primary.phase == "heldout" else "while learning"
    return f"solved at the first submission {where}"


def counted_units(number: int, over: str) -> str:
    """`20 worlds`, `1 lane`."""
    return counted(number, "world" if over == "worlds" else "lane")


def _minute(time: str) -> str:
    return datetime.fromisoformat(time).strftime("%Y-%m-%d %H:%M UTC")
