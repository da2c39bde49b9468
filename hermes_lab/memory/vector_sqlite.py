"""Memories in a SQLite file, with all vectors also in RAM as one matrix, so that a search is one product.

Several processes may write. Each keeps its matrix up to date through two growing counters: rows and removals are
numbered in commit order, so a search first reads what is new and nothing else.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import msgspec

from hermes_lab.errors import StoreError
from hermes_lab.memory.embed import DIMENSIONS, embed
from hermes_lab.memory.vector import DAY, KINDS, Kind, Memory, Recalled, VectorMemory, Wanted, ranked
from hermes_lab.migrations import migrate, open_database, transaction

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE memories (
            number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, text TEXT NOT NULL,
            source TEXT NOT NULL, at TEXT NOT NULL, metadata TEXT NOT NULL, seconds REAL NOT NULL, vector BLOB NOT NULL
        ) STRICT""",
        "CREATE TABLE removals (number INTEGER PRIMARY KEY, removed INTEGER NOT NULL) STRICT",
        """CREATE TRIGGER memory_is_removed AFTER DELETE ON memories BEGIN
            INSERT INTO removals (removed) VALUES (old.number); END""",
    ),
)
"""The statements from each version of the database to the next. Never edit a released migration.

Version 1 holds vectors of `embed`, little-endian float32; other embeddings need another version.
"""

_PART = 5_000
_ROUNDING = DIMENSIONS * 2.0**-24
"""The largest float32 rounding error in the cosine of two unit vectors, in any order of summation."""


class SqliteMemory(VectorMemory):
    """A `VectorMemory` in one file, created at first use."""

    def __init__(self, path: Path, embed: Callable[[Sequence[str]], NDArray[np.float32]] = embed) -> None:
        self.path = path
        self._embed = embed
        self._lock = Lock()
        self._matrix = _Matrix()

    def add(self, memories: Sequence[Memory]) -> None:
        """See `VectorMemory`."""
        vectors = self._embed([memory.text for memory in memories]).astype("<f4")
        rows = [
            (m.id, m.kind, m.text, m.source, m.at, msgspec.json.encode(m.metadata).decode(), m.seconds, v.tobytes())
            for m, v in zip(memories, vectors, strict=True)
        ]
        with self._open() as db, transaction(db):
            db.executemany(
                "INSERT INTO memories (id, kind, text, source, at, metadata, seconds, vector)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
                rows,
            )

    def _search(self, query: str, wanted: Wanted) -> list[Recalled]:
        vector = self._embed([query])[0]
        with self._lock, self._open() as db, transaction(db, "DEFERRED"):
            self._matrix.catch_up(db)
            rows = self._matrix.candidates(vector, wanted)
            found = [(_fetch(db, number), similarity) for number, similarity in rows]
        return ranked(found, wanted)

    def held(self, kind: Kind) -> dict[str, str]:
        """See `VectorMemory`."""
        with self._open() as db:
            return dict(db.execute("SELECT id, source FROM memories WHERE kind = ?", (kind,)))

    def forget(self, ids: Collection[str]) -> None:
        """See `VectorMemory`."""
        with self._open() as db, transaction(db):
            db.executemany("DELETE FROM memories WHERE id = ?", [(id,) for id in ids])

    def count(self) -> int:
        """See `VectorMemory`."""
        with self._open() as db:
            number: int = db.execute("SELECT count(*) FROM memories").fetchone()[0]
            return number

    def close(self) -> None:
        """See `VectorMemory`."""
        with self._lock:
            self._matrix = _Matrix()

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            with open_database(self.path, "memory database", len(MIGRATIONS), _migrate) as db:
                yield db
        except OSError as error:
            raise StoreError(f"{self.path}: {error.strerror}") from error


class _Matrix:
    """The vectors in the file as of the last `catch_up`, in row order.

    Arrays are longer than `_size`, so that adding a row does not copy everything. A removed row becomes zeros, which no
    search finds.
    """

    def __init__(self) -> None:
        import numpy as np

        self._size = self._removals = 0
        self._numbers = np.zeros(0, np.int64)
        self._seconds = np.zeros(0)
        self._kinds = np.zeros(0, np.int8)
        self._vectors = np.zeros((0, DIMENSIONS), np.float32)

    def catch_up(self, db: sqlite3.Connection) -> None:
        """Reads what was committed since the last time."""
        last = int(self._numbers[self._size - 1]) if self._size else 0
        new = db.execute("SELECT number, seconds, kind, vector FROM memories WHERE number > ? ORDER BY number", (last,))
        while rows := new.fetchmany(_PART):
            self._append(rows)
        removed = db.execute("SELECT number, removed FROM removals WHERE number > ? ORDER BY number", (self._removals,))
        for change, number in removed:
            row = int(self._numbers[: self._size].searchsorted(number))
            if row < self._size and self._numbers[row] == number:
                self._vectors[row] = 0
            self._removals = change

    def candidates(self, query: NDArray[np.float32], wanted: Wanted) -> list[tuple[int, float]]:
        """Numbers and similarities of at least the k best, including all that rounding leaves undecided."""
        import numpy as np

        ages = np.maximum(0, wanted.now.timestamp() - self._seconds[: self._size]) / DAY
        decay = np.exp2(-ages / wanted.half_life_days)
        if set(wanted.kinds) != set(KINDS):
            decay[~np.isin(self._kinds[: self._size], [KINDS.index(kind) for kind in wanted.kinds])] = 0
        scores, doubt = (self._vectors[: self._size] @ query) * decay, _ROUNDING * decay
        k, least = wanted.k, wanted.floor
        if len(scores) > k:
            least = max(least, float(np.partition(scores - doubt, -k)[-k]))
        rows = np.flatnonzero((scores > 0) & (scores + doubt >= least))
        # Summed row by row, unlike a matrix product, so that equal vectors get equal similarities.
        exact = (self._vectors[rows].astype(np.float64) * query).sum(axis=1)
        return list(zip(self._numbers[rows].tolist(), exact.tolist(), strict=True))

    def _append(self, rows: list[tuple[int, float, Kind, bytes]]) -> None:
        import numpy as np

        size = self._size + len(rows)
        if size > len(self._numbers):
            for name in ("_numbers", "_seconds", "_kinds", "_vectors"):
                old = getattr(self, name)
                longer = np.empty((max(size, 2 * len(old)), *old.shape[1:]), old.dtype)
                longer[: self._size] = old[: self._size]
                setattr(self, name, longer)
        new = slice(self._size, size)
        self._numbers[new], self._seconds[new] = [row[0] for row in rows], [row[1] for row in rows]
        self._kinds[new] = [KINDS.index(row[2]) for row in rows]
        self._vectors[new] = np.frombuffer(b"".join(row[3] for row in rows), "<f4").reshape(len(rows), DIMENSIONS)
        self._size = size


def _migrate(db: sqlite3.Connection) -> None:
    migrate(db, MIGRATIONS)


def _fetch(db: sqlite3.Connection, number: int) -> Memory:
    select = "SELECT id, kind, text, source, at, metadata FROM memories WHERE number = ?"
    id, kind, text, source, at, metadata = db.execute(select, (number,)).fetchone()
    return Memory(id, kind, text, source, at, msgspec.json.decode(metadata, type=dict[str, str]))
