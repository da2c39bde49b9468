"""How far skills came in a run: eligible -> listed -> loaded -> followed -> solved."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from msgspec import Struct

from analysis.intervals import Rate
from hermes_lab.records import read_attempts
from hermes_lab.types.episode import SkillTrace, episode_key

_ARM = re.compile(r"(.+)-r\d+-w\d+")
STAGES = ("eligible", "listed", "loaded", "followed", "solved")


class _Skills(Struct, frozen=True):
    snapshot: str = ""
    loaded: tuple[str, ...] = ()
    traces: tuple[SkillTrace, ...] = ()


class Seen(Struct, frozen=True, kw_only=True):
    """A view of an `Episode` that holds what it says of skills; decoded from the same line, it skips the rest."""

    v: int = 1
    suite: str
    task_id: str
    lane: str
    round: int
    sample: int
    status: str
    started_at: str
    success: bool | None = None
    skills: _Skills = _Skills()


def read_seen(run: Path) -> list[Seen]:
    """The last record of every episode of a run. Raises `ConfigError` for a line that is no episode."""
    last: dict[str, Seen] = {}
    for seen in read_attempts(run, Seen):
        last[episode_key(seen.suite, seen.task_id, seen.lane, seen.round, seen.sample)] = seen
    return list(last.values())


class Funnel(Struct, frozen=True, kw_only=True):
    """One skill in one arm; every stage counts those episodes that came through all stages before it.

    None is what was not measured. Where nothing could tell whether a skill was eligible, the stages begin with the
    episodes that loaded it; where nothing could tell whether it was followed, `solved` is of those that loaded it.

    `with_it` and `without_it` are the success of eligible episodes that loaded the skill, and of those that did not.
    The agent chose whether to load it, so their difference is no effect of the skill; arms are for that.
    """

    arm: str
    skill: str
    eligible: int | None
    listed: int | None
    loaded: int
    followed: int | None
    solved: int | None
    astray: int | None
    """Episodes that loaded it though it was not about their task."""
    with_it: Rate
    without_it: Rate

    def report(self) -> dict[str, Any]:
        """For JSON."""
        counts = {name: getattr(self, name) for name in ("arm", "skill", *STAGES, "astray")}
        return counts | {"with_it": self.with_it.report(), "without_it": self.without_it.report()}


def funnels(episodes: Iterable[Seen]) -> list[Funnel]:
    """A funnel for every arm and skill that an episode has a trace of. Errored episodes count nowhere."""
    traces: dict[tuple[str, str], list[tuple[SkillTrace, bool | None]]] = {}
    for episode in episodes:
        if episode.status == "ok":
            lane = _ARM.fullmatch(episode.lane)
            for trace in episode.skills.traces:
                key = (lane[1] if lane else episode.lane, trace.name)
                traces.setdefault(key, []).append((trace, episode.success))
    return [_funnel(arm, skill, traces[arm, skill]) for arm, skill in sorted(traces)]


def _funnel(arm: str, skill: str, traces: list[tuple[SkillTrace, bool | None]]) -> Funnel:
    eligible = [pair for pair in traces if pair[0].eligible]
    told = any(trace.eligible is not None for trace, _ in traces)
    listed = [pair for pair in eligible if pair[0].listed]
    loaded = [pair for pair in (listed if told else traces) if pair[0].loaded]
    can_be_followed = any(trace.followed is not None for trace, _ in loaded)
    followed = [pair for pair in loaded if pair[0].followed]
    last = followed if can_be_followed else loaded
    judged = any(success is not None for _, success in traces)
    return Funnel(
        arm=arm,
        skill=skill,
        eligible=len(eligible) if told else None,
        listed=len(listed) if told else None,
        loaded=len(loaded),
        followed=len(followed) if can_be_followed else None,
        solved=sum(success is True for _, success in last) if judged else None,
        astray=sum(trace.loaded and trace.eligible is False for trace, _ in traces) if told else None,
        with_it=_rate(success for trace, success in eligible if trace.loaded),
        without_it=_rate(success for trace, success in eligible if not trace.loaded),
    )


def _rate(outcomes: Iterable[bool | None]) -> Rate:
    judged = [success for success in outcomes if success is not None]
    return Rate(sum(judged), len(judged))
