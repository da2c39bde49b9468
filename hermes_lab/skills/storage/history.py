"""The history of a library: a log with one line per change, which doubles as a write-ahead log for crash recovery.

The line of a change is written before the change is made, and ends in `?`. Afterwards the `?` is overwritten by a line
break, which needs no disk space. So a `?` at the end of the file means that a change was begun but not finished; any
other text after the last line break belongs to a change that was not begun.
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
    """One change of a library, from the snapshot `before` to `after`; `at` is an ISO time.

    A write to one skill has an `action`, the skill's `name`, the `paths` of files written other than SKILL.md, and the
    `episode` and `model` that made it. Any other change has a `reason` instead. `changed` has the new digest of each
    changed skill, "" if it was removed.
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
    """Returns the change, dated now, between two libraries given as the digests of their skills."""
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
    """The history file of a library. Writers must hold the library's lock."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def size(self) -> int:
        """Size in bytes; it changes whenever a change is begun or rolled back."""
        try:
            return self._path.stat().st_size
        except FileNotFoundError:
            return 0

    def read(self) -> Iterator[Change]:
        """Yields all finished changes, oldest first. Raises `ConfigError` naming an invalid line."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.endswith(b"\n"):
                    yield self._decode(line, f"line {number}")

    def last(self) -> Change | None:
        """Returns the newest finished change."""
        lines = self._tail(2).split(b"\n")
        return self._decode(lines[-2], "last line") if len(lines) > 1 else None

    def pending(self) -> Change | None:
        """Returns the change that was begun but not finished, if any. Removes the incomplete line of one not begun."""
        rest = self._tail(1).rpartition(b"\n")[2]
        if rest.endswith(_BEGUN):
            return self._decode(rest[:-1], "the change that was begun")
        if rest:
            self.cut(self.size - len(rest))
        return None

    def begin(self, change: Change) -> None:
        """Writes the change to disk before it is made."""
        size = self.size
        try:
            append_synced(self._path, msgspec.json.encode(change) + _BEGUN, _MODE)
        except OSError:
            self.cut(size)
            raise

    def finish(self) -> None:
        """Marks the change as finished. If this does not reach the disk, recovery repeats it, which is harmless."""
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.pwrite(descriptor, b"\n", self.size - 1)
        finally:
            os.close(descriptor)

    def cut(self, size: int) -> None:
        """Truncates the file to an earlier size."""
        if self.size > size:
            os.truncate(self._path, size)

    def add(self, changes: Iterable[Change]) -> None:
        """Appends changes that were already made."""
        append_synced(self._path, b"".join(msgspec.json.encode(change) + b"\n" for change in changes), _MODE)

    def _tail(self, breaks: int) -> bytes:
        """Returns the end of the file with at least `breaks` line breaks, or the whole file."""
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
