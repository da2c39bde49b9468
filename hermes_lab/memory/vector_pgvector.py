"""Memories in PostgreSQL with pgvector: shared by many machines, found through an HNSW index.

The index orders by similarity, but searches are by score. If only few memories are recent enough to reach the floor,
they are scanned. Otherwise the index returns the `_NEAREST` most similar ones, more than k. Decay only lowers scores,
so no memory beyond them can score above the similarity of the last one: if the k-th best score (or the floor) is
higher, the result is proven exact. If not, a scan covers the memories recent enough to beat the k-th best. The order by
score is thus exact, and only memories that HNSW itself overlooks can be missing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from threading import Lock
from typing import TYPE_CHECKING, Any

import msgspec

from hermes_lab.errors import ConfigError, StoreError
from hermes_lab.memory.embed import DIMENSIONS, embed
from hermes_lab.memory.vector import DAY, Kind, Memory, Recalled, VectorMemory, Wanted, ranked

if TYPE_CHECKING:
    import numpy as np
    import psycopg
    from numpy.typing import NDArray

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        # PLAIN keeps vectors in the row, where a scan needs them; in a long row the text is moved out instead.
        f"""CREATE TABLE hermes_memories (
            id text PRIMARY KEY, kind text NOT NULL, text text NOT NULL, source text NOT NULL, at text NOT NULL,
            metadata text NOT NULL, seconds float8 NOT NULL, vector vector({DIMENSIONS}) STORAGE PLAIN NOT NULL)""",
        "CREATE INDEX hermes_memories_by_time ON hermes_memories (seconds)",
    ),
)
"""The statements from each version of the tables to the next. Never edit a released migration.

Version 1 holds vectors of `embed`, of length 1 or 0: their inner product is the cosine, or 0 for a text without known
words.
"""

_INDEX_FROM = 5_000
"""Number of memories from which an index is used. Scanning fewer is as fast, and exact. It is also the batch to index
at once."""
_INDEX = """CREATE INDEX hermes_memories_by_meaning ON hermes_memories
    USING hnsw (vector vector_ip_ops) WITH (m = 16, ef_construction = 64)"""
_CONNECT_SECONDS = 10
_ONE_WRITER = "SELECT pg_advisory_xact_lock(1214607981)"
"""An advisory lock with an arbitrary unique number, held until the transaction ends."""
_FEW = 15_000
"""Number of memories that a scan covers in about the time of an index search with its proof."""
_NEAREST = 200
_EF_SEARCH = 200
"""Candidates that HNSW keeps during a search, at least `_NEAREST`. More find more, but take longer."""
_COLUMNS = "id, kind, text, source, at, metadata, -(vector <#> %(query)s) AS similarity"
_WHERE = "kind = ANY(%(kinds)s) AND seconds >= %(oldest)s"
_ARE_FEW = f"""SELECT count(*) <= {_FEW} FROM (
    SELECT FROM hermes_memories WHERE seconds >= %(oldest)s ORDER BY seconds LIMIT {_FEW} + 1) AS young"""
_BY_INDEX = f"SELECT {_COLUMNS} FROM hermes_memories WHERE {_WHERE} ORDER BY vector <#> %(query)s LIMIT %(nearest)s"
# The exponent is bounded so that the power is still a float8; older memories have a negligible score anyway.
_DECAY = f"power(2, greatest(-1000, least(0, (seconds - %(now)s) / {DAY} / %(half_life)s)))"
_BY_SCAN = f"""SELECT {_COLUMNS} FROM hermes_memories WHERE {_WHERE}
    ORDER BY -(vector <#> %(query)s) * {_DECAY} DESC, seconds DESC, id LIMIT %(k)s"""


class PgvectorMemory(VectorMemory):
    """A `VectorMemory` in the database at `url`; its tables are created at first use.

    The URL contains a password, so messages show `name` instead.
    """

    def __init__(
        self,
        url: str,
        *,
        name: str = "the memory's URL",
        embed: Callable[[Sequence[str]], NDArray[np.float32]] = embed,
    ) -> None:
        self._url, self._name, self._embed = url, name, embed
        self._lock = Lock()
        self._connection: psycopg.Connection | None = None
        self.count()  # so that a mistake is reported at the start

    def add(self, memories: Sequence[Memory]) -> None:
        """See `VectorMemory`."""
        vectors = self._embed([memory.text for memory in memories])
        rows = [
            (m.id, m.kind, m.text, m.source, m.at, msgspec.json.encode(m.metadata).decode(), m.seconds, vector)
            for m, vector in zip(memories, vectors, strict=True)
        ]
        with self._transaction() as db, db.cursor() as cursor:
            db.execute(_ONE_WRITER)  # two writers adding the same memories in different orders would deadlock
            cursor.executemany(
                "INSERT INTO hermes_memories VALUES (%s, %s, %s, %s, %s, %s, %s, %b) ON CONFLICT DO NOTHING", rows
            )
            _make_index(db)

    def _search(self, query: str, wanted: Wanted) -> list[Recalled]:
        now, half_life_days = wanted.now, wanted.half_life_days
        asked = {
            "query": self._embed([query])[0],
            "kinds": list(wanted.kinds),
            "now": now.timestamp(),
            "half_life": half_life_days,
            "oldest": _oldest(now, wanted.floor, half_life_days),
            "k": wanted.k,
            "nearest": max(_NEAREST, 2 * wanted.k),
        }
        with self._transaction() as db:
            if asked["oldest"] == -math.inf or db.execute(_ARE_FEW, asked).fetchone() == (False,):
                near = db.execute(_BY_INDEX, asked).fetchall()
                found = ranked(map(_memory, near), wanted)
                worst = found[-1].score if len(found) == wanted.k else wanted.floor
                if near and (near[-1][-1] < worst or near[-1][-1] <= 0):
                    return found
                asked["oldest"] = _oldest(now, worst, half_life_days)
            return ranked(map(_memory, db.execute(_BY_SCAN, asked).fetchall()), wanted)

    def held(self, kind: Kind) -> dict[str, str]:
        """See `VectorMemory`."""
        with self._transaction() as db:
            return dict(db.execute("SELECT id, source FROM hermes_memories WHERE kind = %s", (kind,)).fetchall())

    def forget(self, ids: Collection[str]) -> None:
        """See `VectorMemory`."""
        with self._transaction() as db:
            db.execute("DELETE FROM hermes_memories WHERE id = ANY(%s)", (sorted(ids),))

    def count(self) -> int:
        """See `VectorMemory`."""
        with self._transaction() as db:
            row = db.execute("SELECT count(*) FROM hermes_memories").fetchone()
            assert row is not None
            number: int = row[0]
            return number

    def close(self) -> None:
        """See `VectorMemory`."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    @contextmanager
    def _transaction(self) -> Iterator[psycopg.Connection]:
        """The connection, used by one thread at a time; a lost one is reopened on the next use."""
        try:
            import pgvector.psycopg  # noqa: F401
            import psycopg
        except ImportError:
            raise ConfigError("memory.vectors=postgres: pip install 'hermes-lab[postgres]'") from None
        with self._lock:
            try:
                if self._connection is None or self._connection.closed:
                    self._connection = None
                    self._connection = self._connect()
                with self._connection.transaction():
                    yield self._connection
            except psycopg.Error as error:
                raise self._explained(error) from None

    def _connect(self) -> psycopg.Connection:
        import psycopg
        from pgvector.psycopg import register_vector

        try:
            connection = psycopg.connect(
                self._url,
                connect_timeout=_CONNECT_SECONDS,
                autocommit=True,
                prepare_threshold=None,  # a prepared plan ignores the limit, which decides whether the index is used
            )
        except psycopg.Error as error:
            raise self._refused(str(error)) from None
        try:
            _migrate(connection, self._name)
            register_vector(connection)
            connection.execute(f"SET hnsw.ef_search = {_EF_SEARCH}")
            connection.execute("SET hnsw.iterative_scan = strict_order")
        except BaseException:
            connection.close()
            raise
        return connection

    def _refused(self, said: str) -> ConfigError | StoreError:
        """Why connecting failed, in our own words: the library's may quote a malformed URL with its password."""
        for part, reason in _MISTAKES.items():
            if part in said:
                return ConfigError(f"{self._name}: {reason}")
        for part in ("Connection refused", "timeout expired", "No such file or directory", "could not translate host"):
            if part in said:
                return StoreError(f"{self._name}: no server answers at this URL ({part})")
        if "FATAL" in said:
            return StoreError(f"{self._name}: the server does not accept connections now; see its log")
        return ConfigError(f"{self._name}: not a valid URL; use postgresql://user:password@host/database")

    def _explained(self, error: psycopg.Error) -> ConfigError | StoreError:
        from psycopg import errors

        said = error.diag.message_primary or "the connection was lost"
        if isinstance(error, errors.InsufficientPrivilege):
            return ConfigError(f"{self._name}: {said}; grant the user the right to create and use tables")
        return StoreError(f"{self._name}: {said}")


_MISTAKES = {
    "password authentication failed": "the server does not accept user and password",
    "no password supplied": "the server asks for a password; the URL has none",
    "no pg_hba.conf entry": "the server does not let this user in from here; see its pg_hba.conf",
    "does not exist": "the server has no such database or user",
}


def _migrate(db: psycopg.Connection, name: str) -> None:
    """Creates or upgrades the tables, atomically and one process at a time."""
    with db.transaction():
        db.execute(_ONE_WRITER)
        present = 0
        if db.execute("SELECT to_regclass('hermes_memory_version')").fetchone() != (None,):
            row = db.execute("SELECT version FROM hermes_memory_version").fetchone()
            present = row[0] if row else 0
        if present > len(MIGRATIONS):
            raise ConfigError(f"{name}: database version {present} is newer than {len(MIGRATIONS)}: update Hermes Lab")
        if present == 0:
            _enable_pgvector(db, name)
            db.execute("CREATE TABLE hermes_memory_version (version integer NOT NULL)")
            db.execute("INSERT INTO hermes_memory_version VALUES (0)")
        for statements in MIGRATIONS[present:]:
            for statement in statements:
                db.execute(statement)
        if present < len(MIGRATIONS):
            db.execute("UPDATE hermes_memory_version SET version = %s", (len(MIGRATIONS),))


def _make_index(db: psycopg.Connection) -> None:
    """Creates the index if it is missing and there are enough memories."""
    missing = "to_regclass('hermes_memories_by_meaning') IS NULL"
    enough = f"EXISTS (SELECT FROM hermes_memories OFFSET {_INDEX_FROM - 1})"
    if db.execute(f"SELECT {missing} AND {enough}").fetchone() == (True,):
        db.execute(_INDEX)
        db.execute("ANALYZE hermes_memories")


def _enable_pgvector(db: psycopg.Connection, name: str) -> None:
    if db.execute("SELECT FROM pg_extension WHERE extname = 'vector'").fetchone() is not None:
        return
    if db.execute("SELECT FROM pg_available_extensions WHERE name = 'vector'").fetchone() is None:
        raise ConfigError(f"{name}: pgvector is not installed on the server; install 0.8 or later")
    db.execute("CREATE EXTENSION vector")


def _oldest(now: datetime, score: float, half_life_days: float) -> float:
    """The earliest time, in seconds, of a memory that can reach that score: its similarity is at most 1."""
    if score <= 0 or math.isinf(half_life_days):
        return -math.inf
    # One part in a million for rounding, as cosines are float32.
    return now.timestamp() - max(0.0, -math.log2(score) + 1e-6) * half_life_days * DAY


def _memory(row: tuple[Any, ...]) -> tuple[Memory, float]:
    id, kind, text, source, at, metadata, similarity = row
    return Memory(id, kind, text, source, at, msgspec.json.decode(metadata, type=dict[str, str])), similarity
