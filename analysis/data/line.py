"""Partial views of the lines of an episode log, without conversations."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from hermes_lab.manifest import no_run
from hermes_lab.records import read_attempts
from hermes_lab.types import EpisodeError, Observation, Usage
from hermes_lab.types.episode import EpisodeKey, EpisodeResult, Phase
from hermes_lab.types.trajectory import StopReason

T = TypeVar("T")


class _Counted(Struct, frozen=True):
    """An item that is only counted."""


class _Metadata(Struct, frozen=True):
    """Written by any suite, so values may have any type."""

    family: Any = ""
    rule_type: Any = ""
    seen: Any = None


class _Task(Struct, frozen=True):
    domain: str
    split: str
    world: int = 0
    triggers: tuple[str, ...] = ()
    metadata: _Metadata = _Metadata()


class _Verdict(Struct, frozen=True):
    success: bool


class _Trajectory(Struct, frozen=True):
    stop_reason: StopReason
    usage: Usage = Usage()


class _Trace(Struct, frozen=True):
    eligible: bool | None = None
    listed: bool = False
    followed: bool | None = None


class _Skills(Struct, frozen=True):
    snapshot: str = ""
    listed: tuple[str, ...] = ()
    loaded: tuple[str, ...] = ()
    writes: tuple[_Counted, ...] = ()
    traces: tuple[_Trace, ...] = ()


class _Memory(Struct, frozen=True):
    snapshot: str = ""
    writes: tuple[_Counted, ...] = ()


class _ReviewTrajectory(_Trajectory, frozen=True):
    steps: tuple[_Counted, ...] = ()


class _Review(Struct, frozen=True):
    trajectory: _ReviewTrajectory | None = None
    writes: tuple[_Counted, ...] = ()
    memory: tuple[_Counted, ...] = ()
    seconds: float = 0.0
    error: EpisodeError | None = None


class _Metrics(Struct, frozen=True):
    api_calls: float = 0
    iterations: float = 0
    tool_calls: float = 0
    tool_errors: float = 0
    cut_replies: float | None = None
    unparsed_calls: float | None = None
    refused_calls: float | None = None
    first_call: float | None = None
    first_call_ok: float | None = None


class _Vote(Struct, frozen=True):
    usage: Usage = Usage()
    cost: float = 0.0


class _Judgement(Struct, frozen=True):
    votes: tuple[_Vote, ...] = ()


class _Rescored(Struct, frozen=True):
    problem: str = ""


class Line(EpisodeResult[_Task], frozen=True, kw_only=True):
    """A view of an `Episode` without its conversation; other fields are skipped, not decoded.

    Names, types and defaults match `Episode` and its parts.
    """

    verdicts: tuple[_Verdict, ...] = ()
    trajectory: _Trajectory | None = None
    skills: _Skills = _Skills()
    memory: _Memory = _Memory()
    observation: Observation | None = None
    children: tuple[_Counted, ...] = ()
    review: _Review | None = None
    metrics: _Metrics = _Metrics()
    phase: Phase = "learn"
    block: int = 0
    judgements: tuple[_Judgement, ...] = ()
    rescored: _Rescored | None = None


def read_last(run: str | Path, fields: Iterable[str], make: Callable[[Line], T]) -> list[T]:
    """Applies `make` to the last record of each key, in the order they were written.

    One pass over the log that keeps only the results. Lines are decoded with their key and `fields` only. A torn last
    line is skipped. Raises `ConfigError` if `run` is no run folder, or a line is no episode or has a newer version;
    other fields are only checked to be JSON.
    """
    folder = Path(run)
    if not (folder / "episodes").is_dir() and not (folder / "run.json").is_file():
        raise no_run(folder)
    last: dict[tuple[str | int, ...], T] = {}
    for line in read_attempts(folder, _view(set(fields) - {*EpisodeKey.__struct_fields__})):
        key = (line.suite, line.task_id, line.lane, line.round, line.sample)
        last.pop(key, None)  # keeps the position of the later record
        last[key] = make(line)
    return list(last.values())


def _view(wanted: set[str]) -> type[Line]:
    """`Line` with its key and these fields; others are skipped."""
    chosen = [
        (f.name, f.type) if f.required else (f.name, f.type, f.default)
        for f in msgspec.structs.fields(Line)
        if f.name in wanted
    ]
    made: Any = msgspec.defstruct("Line", chosen, bases=(EpisodeKey,), frozen=True, kw_only=True)
    return made  # type: ignore[no-any-return]
