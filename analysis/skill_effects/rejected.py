"""Skill and note writes that were rejected, with the first reason, from the results of the tool calls."""

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from hermes_lab.records import read_attempts
from hermes_lab.types.episode import EpisodeKey

WRITERS = frozenset({"skill_manage", "skill_compile", "memory"})
_MOST = 200
"""Characters of a reason to keep."""


class Rejected(NamedTuple):
    """Rejected writes of some lanes; `first` is the reason of the first one, such as "skill_manage: name: ..."."""

    writes: int = 0
    first: str = ""

    def __str__(self) -> str:
        """`50 writes were rejected, the first one: ...`; "" if there are none."""
        if not self.writes:
            return ""
        many = "1 write was rejected" if self.writes == 1 else f"{self.writes:,} writes were rejected, the first one"
        return f"{many}: {self.first}"


class _Result(Struct, frozen=True):
    name: str
    content: str = ""
    ok: bool = True


class _Message(Struct, frozen=True):
    results: tuple[_Result, ...] = ()


class _Trajectory(Struct, frozen=True):
    messages: msgspec.Raw = msgspec.Raw(b"[]")


class _Review(Struct, frozen=True):
    trajectory: _Trajectory | None = None


class _Line(EpisodeKey, frozen=True, kw_only=True):
    status: str
    phase: str = "learn"
    trajectory: _Trajectory | None = None
    review: _Review | None = None
    forks: tuple[_Review, ...] = ()


class _Error(Struct, frozen=True):
    error: str = ""


def rejected_writes(runs: Iterable[Path], lanes: Collection[str]) -> Rejected:
    """The rejected writes of training tasks and their reviews in those lanes, in the order of the log."""
    found: dict[tuple[Path, str], Rejected] = {}  # a later record of an episode replaces an earlier one
    for run in runs:
        for line in read_attempts(run, _Line):
            if line.lane in lanes and line.status == "ok" and line.phase == "learn":
                found[run, line.key] = _rejected(line)
    return Rejected(
        sum(each.writes for each in found.values()), next((e.first for e in found.values() if e.writes), "")
    )


def _rejected(line: _Line) -> Rejected:
    failed = list(_failed(line))
    return Rejected(len(failed), f"{failed[0].name}: {_reason(failed[0].content)}" if failed else "")


def _failed(line: _Line) -> Iterator[_Result]:
    for trajectory in (line.trajectory, *(review.trajectory for review in (line.review, *line.forks) if review)):
        for message in msgspec.json.decode(trajectory.messages, type=list[_Message]) if trajectory else ():
            yield from (result for result in message.results if result.name in WRITERS and not result.ok)


def _reason(content: str) -> str:
    try:
        said = msgspec.json.decode(content, type=_Error).error or content
    except msgspec.DecodeError:
        said = content
    line = " ".join(said.split())
    return line if len(line) <= _MOST else f"{line[:_MOST]}..."
