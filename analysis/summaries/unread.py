"""Diagnoses unparsed and truncated episodes from their last replies."""

import itertools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from hermes_lab.models.unread import family_of
from hermes_lab.records import read_attempts

MOST = 5
"""Episodes to inspect; a run has one model, so a few suffice."""


class _Message(Struct, frozen=True):
    role: str
    content: str = ""


class _Usage(Struct, frozen=True):
    completion_tokens: int = 0


class _Step(Struct, frozen=True):
    usage: _Usage = _Usage()


class _Trajectory(Struct, frozen=True):
    stop_reason: str
    messages: msgspec.Raw = msgspec.Raw(b"[]")
    steps: msgspec.Raw = msgspec.Raw(b"[]")


class _Line(Struct, frozen=True):
    v: int = 1
    trajectory: _Trajectory | None = None


def unread_formats(run: Path, most: int = MOST) -> list[str]:
    """Tool-call formats (families of `hermes_lab.models.parsers`) of the last replies of a run's first `most` unparsed
    episodes, most frequent first. Unknown formats are left out. Stops reading after `most` episodes."""
    found = Counter(family_of(_last_reply(each.messages)) for each in _ended(run, "unparsed", most))
    return [family for family, _ in found.most_common() if family]


def longest_cut(run: Path, most: int = MOST) -> int:
    """Completion tokens of the longest last reply among a run's first `most` episodes with stop reason `length`; 0 if
    the server did not report usage. Stops reading after `most` episodes."""
    steps = (msgspec.json.decode(each.steps, type=list[_Step]) for each in _ended(run, "length", most))
    return max((of_one[-1].usage.completion_tokens for of_one in steps if of_one), default=0)


def _ended(run: Path, reason: str, most: int) -> Iterator[_Trajectory]:
    ended = (each.trajectory for each in read_attempts(run, _Line))
    yield from itertools.islice((each for each in ended if each and each.stop_reason == reason), most)


def _last_reply(messages: msgspec.Raw) -> str:
    replies = [m.content for m in msgspec.json.decode(messages, type=list[_Message]) if m.role == "assistant"]
    return replies[-1] if replies else ""
