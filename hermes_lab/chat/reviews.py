"""A log of the reviews of chat sessions, separate from the conversations."""

from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from hermes_lab.types import Review


class Reviewed(Struct, frozen=True, kw_only=True):
    """One review of a session, started when it had `length` messages."""

    v: int = 1
    session: str
    length: int
    at: str
    review: Review


class ReviewLog:
    """`reviews/<session>.jsonl` in the Hermes home, one line per review."""

    def __init__(self, home: Path, session: str) -> None:
        self.path = home / "reviews" / f"{session}.jsonl"
        self._session = session

    def append(self, review: Review, length: int) -> None:
        """Appends a review."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        at = datetime.now(UTC).isoformat(timespec="seconds")
        line = msgspec.json.encode(Reviewed(session=self._session, length=length, at=at, review=review)) + b"\n"
        with self.path.open("ab") as file:
            if file.tell() and not _ends_a_line(self.path):
                line = b"\n" + line  # keeps a line torn by a crash separate
            file.write(line)

    def last(self) -> int:
        """The session's length at its last review, or 0."""
        try:
            lines = self.path.read_bytes().splitlines()
        except FileNotFoundError:
            return 0
        for line in reversed(lines):
            try:
                return msgspec.json.decode(line, type=_Length).length
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # torn by a crash
                continue
        return 0


class _Length(Struct):
    length: int


def _ends_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, 2)
        return file.read(1) == b"\n"
