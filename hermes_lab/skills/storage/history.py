"""The history of a library: a line for every change, which is also how a change survives a crash.

A change's line is written before the change is made, and ends in `?`; afterwards a line break takes the place of that,
which needs no room on the disk. So a `?` at the end tells the next who comes of a change that was begun, and anything
else after the last line break, of one that was not.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from hermes_lab.durable import append_synced
from hermes_lab.records import decode_record
from hermes_lab.skills.library import snapshot_of
from hermes_lab.types.skill import Action, Origin

VERSION = 1
_BEGUN = b"?"
_CHUNK = 1 << 13
_MODE = 0o644


class Change(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One change of a library: from the snapshot `before` to `after`, `at` an ISO time.

    A write to one skill has its `action` and `name`, the `paths` of the files beside SKILL.md that it wrote, and the
    `episode` and `model` it is from; a change of the whole has its `reason` instead. `changed` names the digests of the
    skills that it left otherwise, "" for one that is gone.
    """

    v: int = VERSION
    at: str
    origin: Origin
    before: str
    after: str
    action: Action | None = None
    name: str = ""
    paths: tuple[str, ...] = ()
    episode: str = ""
    model: str = ""
    reason: str = ""
    changed: dict[str, str] = {}


def change_between(before: Mapping[str, str], after: Mapping[str, str], *, origin: Origin, **what: Any) -> Change:
    """What changes now between two libraries, given as the digests of their skills."""
    names = sorted(name for name in {**before, **after} if before.get(name) != after.get(name))
    return Change(
        at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        origin=origin,
        before=snapshot_of(before),
        after=snapshot_of(after),
        changed={name: after.get(name, "") for name in names},
        **what,
    )


class History:
    """The file of a library's changes. Whoever writes to it holds the library's lock."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def size(self) -> int:
        """In bytes: it tells of any change that was begun, made or taken back."""
        try:
            return self._path.stat().st_size
        except FileNotFoundError:
            return 0

    def read(self) -> Iterator[Change]:
        """Every change that was made, the oldest first. Raises `ConfigError` naming the line that is none."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.endswith(b"\n"):
                    yield self._decode(line, f"line {number}")

    def last(self) -> Change | None:
        """The newest change that was made."""
        lines = self._tail(2).split(b"\n")
        return self._decode(lines[-2], "last line") if len(lines) > 1 else None

    def pending(self) -> Change | None:
        """A change that was begun and not finished. What is left of one that was not even begun is removed."""
        rest = self._tail(1).rpartition(b"\n")[2]
        if rest.endswith(_BEGUN):
            return self._decode(rest[:-1], "the change that was begun")
        if rest:
            self.cut(self.size - len(rest))
        return None

    def begin(self, change: Change) -> None:
        """Puts on the disk what will be done."""
        size = self.size
        try:
            append_synced(self._path, msgspec.json.encode(change) + _BEGUN, _MODE)
        except OSError:
            self.cut(size)
            raise

    def finish(self) -> None:
        """The change that was begun is made. Should this not reach the disk, it is finished once more: no harm."""
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.pwrite(descriptor, b"\n", self.size - 1)
        finally:
            os.close(descriptor)

    def cut(self, size: int) -> None:
        """Forgets what was written since the file had this size."""
        if self.size > size:
            os.truncate(self._path, size)

    def add(self, changes: Iterable[Change]) -> None:
        """Takes down changes that are made already."""
        append_synced(self._path, b"".join(msgspec.json.encode(change) + b"\n" for change in changes), _MODE)

    def _tail(self, breaks: int) -> bytes:
        """The end of the file, from before its last so many line breaks, or the whole."""
        if not self._path.exists():
            return b""
        with self._path.open("rb") as file:
            at = file.seek(0, os.SEEK_END)
            tail = b""
            while at and tail.count(b"\n") < breaks:
                start = max(0, at - _CHUNK - len(tail))
                file.seek(start)
                tail, at = file.read(at - start) + tail, start
        return tail

    def _decode(self, line: bytes, where: str) -> Change:
        return decode_record(_decoder, line, f"{self._path}: {where}", "a change", VERSION)


_decoder = msgspec.json.Decoder(Change)
