"""The timeline of a lane's skills, from the log and the merges after each round."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec
from msgspec import Struct

from hermes_lab.analysis.data.line import Line, read_last
from hermes_lab.errors import ConfigError

if TYPE_CHECKING:
    import pandas as pd

What = Literal["created", "patched", "deprecated", "dropped", "deleted"]
"""`patched` is any change to an existing skill. A write was `dropped` in favour of another episode's in its round."""


class SkillEvent(NamedTuple):
    """An event in the life of a skill, at the end of a round."""

    round: int
    skill: str
    what: What


class SkillLoads(NamedTuple):
    """The judged episodes of a round that loaded a skill, and how many were solved at the first submission."""

    round: int
    skill: str
    loaded: int
    solved: int


class Timeline(NamedTuple):
    """Data for `plot_skill_timeline`."""

    events: list[SkillEvent]
    loads: list[SkillLoads]


class _Write(Struct):
    name: str = ""
    action: str = ""
    episode: str = ""


class _Deprecated(Struct):
    name: str


class RoundMerge(Struct):
    """A view of a line of a lane's history, written by `hermes_lab.runners.engine.lane_history`."""

    round: int
    merged: tuple[_Write, ...] = ()
    dropped: tuple[_Write, ...] = ()
    deprecated: tuple[_Deprecated, ...] = ()


def read_merges(run: Path) -> Iterator[tuple[str, RoundMerge]]:
    """Every round merge of every lane, with the lane's name. Raises `ConfigError` with the invalid line."""
    for path in sorted(run.glob("lanes/*/history.jsonl")):
        for number, line in enumerate(path.read_bytes().splitlines(), 1):
            try:
                yield path.parent.name, _merge.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                raise ConfigError(f"{path}:{number}: not a merge record: {error}") from None


def timeline(run: Path, lane: str) -> Timeline:
    """The events and loads of one lane, without held-out tasks. Raises `ConfigError` as `read_last`."""
    events = [event for name, merge in read_merges(run) if name == lane for event in _events(merge)]
    loads: dict[tuple[int, str], list[bool]] = {}
    for line in read_last(run, ("phase", "status", "success", "skills"), lambda line: line):
        if line.lane == lane and line.phase == "learn" and line.status == "ok" and line.success is not None:
            for skill in line.skills.loaded:
                loads.setdefault((line.round, skill), []).append(line.success)
    counted = [SkillLoads(*key, len(solved), sum(solved)) for key, solved in sorted(loads.items())]
    return Timeline(events, counted)


def skill_tasks(run: Path, by: Literal["family", "rule_type", "task"] = "rule_type") -> "pd.DataFrame":
    """Load rate by skill (index) and kind of task (columns): the share of episodes with the skill in the prompt that
    loaded it; missing if none had it. Phase `learn`, all lanes. Raises `ConfigError` as `read_last`."""
    import pandas as pd

    rows = [
        (skill, _kind(line, by), skill in line.skills.loaded)
        for line in read_last(run, ("phase", "status", "task", "skills"), lambda line: line)
        if line.phase == "learn" and line.status == "ok"
        for skill in {*line.skills.listed, *line.skills.loaded}
    ]
    table = pd.DataFrame(rows, columns=["skill", "kind", "loaded"]).astype({"loaded": "float64"})
    return table.pivot_table(index="skill", columns="kind", values="loaded", aggfunc="mean")


def _events(merge: RoundMerge) -> Iterator[SkillEvent]:
    for write in merge.merged:
        what: What = "created" if write.action == "create" else "deleted" if write.action == "delete" else "patched"
        yield SkillEvent(merge.round, write.name, what)
    yield from (SkillEvent(merge.round, write.name, "dropped") for write in merge.dropped)
    yield from (SkillEvent(merge.round, skill.name, "deprecated") for skill in merge.deprecated)


def _kind(line: Line, by: str) -> str:
    if by == "task":
        return line.task_id
    kind = line.task.metadata.family if by == "family" else line.task.metadata.rule_type
    return kind if isinstance(kind, str) and kind else "none"


_merge = msgspec.json.Decoder(RoundMerge)
