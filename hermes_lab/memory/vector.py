"""Memories found by meaning, and the definition of their ranking that every store implements.

A memory's *similarity* is the cosine of its vector and the query's; its *score* is `similarity * exp(-lambda * age)`
with lambda = ln 2 / half-life, and age 0 for times in the future. A search returns the k memories of the highest
**score** (not the k most similar ones, reordered), except those below the floor and those with score <= 0. Ties are
ordered by newest first, then lowest id.
"""

import hashlib
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal, NamedTuple, Protocol, get_args

from msgspec import Struct

Kind = Literal["episodic", "semantic", "declarative"]
"""Episodic: past work with its tracebacks. Semantic: facts, configuration and rules. Declarative: the manuals of
skills."""
KINDS: tuple[Kind, ...] = get_args(Kind)
DAY = 86_400.0


class Memory(Struct, frozen=True, omit_defaults=True):
    """One memory; create it with `Memory.of`. `source` says where it comes from, such as a session; `at` is ISO 8601 in
    UTC."""

    id: str
    kind: Kind
    text: str
    source: str
    at: str
    metadata: dict[str, str] = {}

    @classmethod
    def of(
        cls, kind: Kind, text: str, *, source: str, at: datetime, metadata: Mapping[str, str] | None = None
    ) -> "Memory":
        """A memory whose id is the digest of kind, text and source, so that duplicates are stored once.

        Lone surrogates and NUL, which databases cannot store, become `?`.
        """
        text, source = _storable(text), _storable(source)
        id = hashlib.sha256("\0".join((kind, source, text)).encode()).hexdigest()[:32]
        pairs = {_storable(key): _storable(value) for key, value in (metadata or {}).items()}
        return cls(id, kind, text, source, at.astimezone(UTC).isoformat(timespec="milliseconds"), pairs)

    @property
    def seconds(self) -> float:
        """The time in seconds since 1970."""
        return datetime.fromisoformat(self.at).timestamp()


class Recalled(Struct, frozen=True):
    """A memory found by a search, with its cosine similarity and decayed score."""

    memory: Memory
    similarity: float
    score: float


class Wanted(NamedTuple):
    """What a search is for, besides its query."""

    k: int
    now: datetime
    kinds: Collection[Kind]
    floor: float
    half_life_days: float


class VectorMemory(Protocol):
    """A store of memories. Calls block, and may come from any thread; several processes may share a store.

    Raises `StoreError` if the store cannot be reached or written, `ConfigError` if the user must fix something.
    """

    def add(self, memories: Sequence[Memory]) -> None:
        """Stores all memories or, on failure, none. Existing ones are left unchanged."""
        ...

    def search(
        self,
        query: str,
        *,
        k: int,
        now: datetime,
        kinds: Collection[Kind] = KINDS,
        floor: float = 0.0,
        half_life_days: float = math.inf,
    ) -> list[Recalled]:
        """The k memories of the highest score, best first; the module docstring has the exact definition."""
        return self._search(query, Wanted(k, now, kinds, floor, half_life_days))

    def _search(self, query: str, wanted: Wanted) -> list[Recalled]: ...

    def held(self, kind: Kind) -> dict[str, str]:
        """The sources of all memories of that kind, by id."""
        ...

    def forget(self, ids: Collection[str]) -> None:
        """Removes memories; unknown ids are ignored."""
        ...

    def count(self) -> int:
        """The number of memories."""
        ...

    def close(self) -> None:
        """Releases memory and connections. The store must not be used afterwards."""
        ...


def ranked(found: Iterable[tuple[Memory, float]], wanted: Wanted) -> list[Recalled]:
    """The best k of candidates given with their similarities."""
    moment = wanted.now.timestamp()
    scored: list[tuple[float, float, str, Recalled]] = []
    for memory, similarity in found:
        seconds = memory.seconds
        score = similarity * 2 ** (-max(0.0, moment - seconds) / DAY / wanted.half_life_days)
        if score > 0 and score >= wanted.floor:
            scored.append((-score, -seconds, memory.id, Recalled(memory, similarity, score)))
    return [recalled for *_, recalled in sorted(scored, key=lambda entry: entry[:3])[: wanted.k]]


def _storable(text: str) -> str:
    return text.encode(errors="replace").decode().replace("\0", "?")
