"""In which format the tool calls are that a run's episodes ended with, and that were not read."""

from collections import Counter
from pathlib import Path

import msgspec
from msgspec import Struct

from hermes_lab.models.unread import family_of
from hermes_lab.records import read_attempts

MOST = 5
"""Episodes that are looked at: those of a run have one model, so a few tell."""


class _Message(Struct, frozen=True):
    role: str
    content: str = ""


class _Trajectory(Struct, frozen=True):
    stop_reason: str
    messages: msgspec.Raw = msgspec.Raw(b"[]")


class _Line(Struct, frozen=True):
    v: int = 1
    trajectory: _Trajectory | None = None


def unread_formats(run: Path, most: int = MOST) -> list[str]:
    """The families of `hermes_lab.models.parsers` that the last replies of a run's first `most` unparsed episodes look
    like, most frequent first. Replies in no known format are left out. Stops reading after `most` of them."""
    found: Counter[str] = Counter()
    for line in read_attempts(run, _Line):
        if most and line.trajectory and line.trajectory.stop_reason == "unparsed":
            found[family_of(_last_reply(line.trajectory.messages))] += 1
            most -= 1
        if not most:
            break
    return [family for family, _ in found.most_common() if family]


def _last_reply(messages: msgspec.Raw) -> str:
    replies = [m.content for m in msgspec.json.decode(messages, type=list[_Message]) if m.role == "assistant"]
    return replies[-1] if replies else ""
