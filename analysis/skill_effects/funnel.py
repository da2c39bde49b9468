"""The usage funnel of skills in a run: eligible -> listed -> loaded -> followed -> solved."""

from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct

from hermes_lab.analysis.stats.intervals import Rate
from hermes_lab.lane import lane_key
from hermes_lab.records import read_attempts
from hermes_lab.types.episode import EpisodeKey, SkillTrace

STAGES = ("eligible", "listed", "loaded", "followed", "solved")


class _Skills(Struct, frozen=True):
    snapshot: str = ""
    loaded: tuple[str, ...] = ()
    traces: tuple[SkillTrace, ...] = ()


class Seen(EpisodeKey, frozen=True, kw_only=True):
    """A view of an `Episode` with only its skill usage; other fields are skipped."""

    status: str
    started_at: str
    success: bool | None = None
    skills: _Skills = _Skills()


def read_seen(run: Path) -> list[Seen]:
    """The last record of each episode of a run. Raises `ConfigError` for a line that is not an episode."""
    last: dict[str, Seen] = {}
    for seen in read_attempts(run, Seen):
        last[seen.key] = seen
    return list(last.values())


class Funnel(Struct, frozen=True, kw_only=True):
    """One skill in one arm; each stage counts the episodes that passed all earlier stages.

    None is not measured. If eligibility is unknown, the funnel starts with the episodes that loaded the skill; if it is
    unknown whether a skill was followed, `solved` counts those that loaded it.

    `with_it` and `without_it` are success rates of eligible episodes that loaded the skill and that did not. The agent
    chose whether to load it, so their difference is not a causal effect.

    `helped` and `hurt` compare with arm `off`: among the episodes of the second-to-last stage, those that solved a task
    that its counterpart in `off` did not, and the reverse. None without judged pairs. This difference is due to the
    whole library and to sampling noise; for the effect of a single skill see `hermes-lab skills uplift`.
    """

    arm: str
    skill: str
    eligible: int | None
    listed: int | None
    loaded: int
    followed: int | None
    solved: int | None
    astray: int | None
    """Episodes that loaded the skill although it was not relevant to their task."""
    with_it: Rate
    without_it: Rate
    helped: int | None = None
    hurt: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        counts = {name: getattr(self, name) for name in ("arm", "skill", *STAGES, "helped", "hurt", "astray")}
        return counts | {"with_it": self.with_it.to_dict(), "without_it": self.without_it.to_dict()}


class _Trace(NamedTuple):
    """One skill in one episode. `off` is the counterpart's outcome without skills, or None."""

    trace: SkillTrace
    success: bool | None
    off: bool | None


def funnels(episodes: Iterable[Seen]) -> list[Funnel]:
    """A funnel for every arm and skill with a trace. Errored episodes are excluded."""
    finished = [episode for episode in episodes if episode.status == "ok"]
    off = {place: e.success for e in finished if (place := _place(e, "off"))}
    traces: dict[tuple[str, str], list[_Trace]] = {}
    for episode in finished:
        lane = lane_key(episode.lane)
        arm = lane.arm if lane else episode.lane
        for trace in episode.skills.traces:
            paired = _Trace(trace, episode.success, off.get(_place(episode, arm)))
            traces.setdefault((arm, trace.name), []).append(paired)
    return [_funnel(arm, skill, traces[arm, skill]) for arm, skill in sorted(traces)]


def _place(episode: Seen, arm: str) -> Hashable:
    """An episode's key without the arm, to find its counterpart; None if it is of another arm."""
    lane = lane_key(episode.lane)
    if lane is None or lane.arm != arm:
        return None
    return (episode.suite, episode.task_id, lane._replace(arm=""), episode.round, episode.sample)


def _funnel(arm: str, skill: str, traces: list[_Trace]) -> Funnel:
    eligible = [each for each in traces if each.trace.eligible]
    told = any(each.trace.eligible is not None for each in traces)
    listed = [each for each in eligible if each.trace.listed]
    loaded = [each for each in (listed if told else traces) if each.trace.loaded]
    can_be_followed = any(each.trace.followed is not None for each in loaded)
    followed = [each for each in loaded if each.trace.followed]
    last = followed if can_be_followed else loaded
    judged = any(each.success is not None for each in traces)
    pairs = [(each.success, each.off) for each in last if None not in (each.success, each.off)]
    return Funnel(
        arm=arm,
        skill=skill,
        eligible=len(eligible) if told else None,
        listed=len(listed) if told else None,
        loaded=len(loaded),
        followed=len(followed) if can_be_followed else None,
        solved=sum(each.success is True for each in last) if judged else None,
        astray=sum(each.trace.loaded and each.trace.eligible is False for each in traces) if told else None,
        with_it=_rate(each.success for each in eligible if each.trace.loaded),
        without_it=_rate(each.success for each in eligible if not each.trace.loaded),
        helped=pairs.count((True, False)) if pairs else None,
        hurt=pairs.count((False, True)) if pairs else None,
    )


def _rate(outcomes: Iterable[bool | None]) -> Rate:
    judged = [success for success in outcomes if success is not None]
    return Rate(sum(judged), len(judged))
