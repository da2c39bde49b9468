"""The merge at the end of each round of a lane, one line each in `lanes/<lane>/history.jsonl`.

An episode's record lists its writes; a merge's record says which of them were kept, which were dropped in favour of
another episode's, and how else the library changed. It depends only on the log, so a resume writes the same bytes.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from hermes_lab.records import decode_record, write_atomic
from hermes_lab.skills.library import Library
from hermes_lab.text.counted import counted
from hermes_lab.types.skill import Action, Origin, SkillWrite

VERSION = 1


class Write(Struct, frozen=True, omit_defaults=True):
    """A write to a skill; its full content is in the record of its `episode`. For a dropped write, `won` is the episode
    whose write was kept: the first in the round to write a skill of this name."""

    action: Action
    name: str
    origin: Origin
    episode: str
    model: str
    path: str = ""
    won: str = ""


class Deprecated(Struct, frozen=True):
    """A skill that prompts no longer list, and why: its judged uses, and the 95 % interval of its success rate."""

    name: str
    judged: int
    solved: int
    low: float
    high: float


class MergedNotes(Struct, frozen=True):
    """Digests of the notes before and after ("" for none), and the number of writes that changed them. Other writes are
    `dropped`: the entry already existed, no longer existed, or did not fit."""

    before: str
    after: str
    merged: int
    dropped: int


class RoundMerge(Struct, frozen=True, kw_only=True):
    """The change from the library `before` `round` to the one `after` it: the writes `merged`, in order; then the
    skills `deprecated` for poor outcomes; then, in placebo lanes, whether skill contents were `emptied`."""

    v: int = VERSION
    round: int
    before: str
    after: str
    merged: tuple[Write, ...]
    dropped: tuple[Write, ...]
    deprecated: tuple[Deprecated, ...]
    emptied: bool
    notes: MergedNotes


_decoder = msgspec.json.Decoder(RoundMerge)


def record(write: SkillWrite, won: str = "") -> Write:
    """The record of a write."""
    return Write(write.action, write.name, write.origin, write.episode, write.model, write.path, won)


def keep_merge(run: Path, lane: str, merge: RoundMerge) -> None:
    """Writes `merge` as the line of its round, atomically. Later lines are removed unless the line is unchanged."""
    path = _file(run, lane)
    line = msgspec.json.encode(merge) + b"\n"
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    if lines[merge.round : merge.round + 1] != [line]:
        write_atomic(path, b"".join([*lines[: merge.round], line]))


def read_history(run: Path, lane: str) -> list[RoundMerge]:
    """The merges of a lane; empty if it does not learn. Raises `ConfigError` with the number of an invalid line."""
    path = _file(run, lane)
    lines = path.read_bytes().splitlines() if path.exists() else []
    return [
        decode_record(_decoder, line, f"{path}:{number}", "a merge record", VERSION)
        for number, line in enumerate(lines, 1)
    ]


def read_histories(run: Path) -> dict[str, list[RoundMerge]]:
    """The merges of each lane that has any."""
    return {path.parent.name: read_history(run, path.parent.name) for path in sorted(run.glob("lanes/*/history.jsonl"))}


def describe_merge(merge: RoundMerge) -> str:
    """What a merge changed, in one line; "" if nothing."""
    events = "; ".join(_events(merge))
    changed = (merge.before, merge.after) if merge.before != merge.after else (merge.after,)
    return f"library {' -> '.join(map(shown_library, changed))}: {events}" if events else ""


def shown_library(snapshot: str, *, whole: bool = False) -> str:
    """A snapshot's id, short unless `whole`; `empty` without skills, where the id is a digest of nothing."""
    return "empty" if snapshot == Library().snapshot else snapshot if whole else snapshot[:8]


def _events(merge: RoundMerge) -> Iterator[str]:
    if merge.merged:
        yield ", ".join(f"{_DONE[w.action]} {w.name}{f'/{w.path}' if w.path else ''}" for w in merge.merged)
    for name, count in Counter(write.name for write in merge.dropped).items():
        yield f"dropped {counted(count, 'later write')} of {name}"
    for skill in merge.deprecated:
        yield f"deprecated {skill.name}, which solved {skill.solved} of {skill.judged}"
    if merge.emptied:
        yield "emptied (placebo)"
    if merge.notes.merged:
        yield f"merged {counted(merge.notes.merged, 'note')}"
    if merge.notes.dropped:
        yield f"dropped {counted(merge.notes.dropped, 'note')}"


_DONE: dict[Action, str] = {
    "create": "created",
    "edit": "edited",
    "patch": "patched",
    "delete": "deleted",
    "write_file": "wrote",
    "remove_file": "removed",
}


def _file(run: Path, lane: str) -> Path:
    return run / "lanes" / lane / "history.jsonl"
