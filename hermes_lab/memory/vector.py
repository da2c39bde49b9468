"""Memories that are found by their meaning: what they are, and in which order they are found.

The definition, which every store keeps: a memory's *similarity* is the cosine of its vector and the query's; its
*score* is `similarity * exp(-lambda * age)` with lambda = ln 2 / half-life, and age 0 for what lies in the future.
Found are the k memories of the highest **score** (not: the k most similar ones, reordered), those under the floor and
those that are not alike at all (score <= 0) left out. Among equal scores the newest comes first, then the lowest id.
"""

import hashlib
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal, Protocol, get_args

from msgspec import Struct

Kind = Literal["episodic", "semantic", "declarative"]
"""What was done, what is so, and how a thing is done: past work with its tracebacks; facts, configuration and rules;
the manuals of skills."""
KINDS: tuple[Kind, ...] = get_args(Kind)
DAY = 86_400.0


class Memory(Struct, frozen=True, omit_defaults=True):
    """One thing to remember; make it with `Memory.of`. `source` says where it comes from, such as a session; `at` is
    ISO 8601 in UTC."""

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
        """A memory whose id is the digest of kind, text and source: the same one is never remembered twice.

        What a database cannot hold, a lone surrogate or NUL, becomes `?`.
        """
        text, source = _storable(text), _storable(source)
        id = hashlib.sha256("\0".join((kind, source, text)).encode()).hexdigest()[:32]
        pairs = {_storable(key): _storable(value) for key, value in (metadata or {}).items()}
        return cls(id, kind, text, source, at.astimezone(UTC).isoformat(timespec="milliseconds"), pairs)

    @property
    def seconds(self) -> float:
        """When, in seconds since 1970."""
        return datetime.fromisoformat(self.at).timestamp()


class Recalled(Struct, frozen=True):
    """A memory that a search found, with its cosine and its decayed score."""

    memory: Memory
    similarity: float
    score: float


class VectorMemory(Protocol):
    """A store of memories. All calls block, and may come from any thread; several processes may share a store.

    Raises `StoreError` where the store cannot be reached or written, `ConfigError` where a person must mend it.
    """

    def add(self, memories: Sequence[Memory]) -> None:
        """Remembers all of them or, where it fails, none. One that is there already stays as it is."""
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
        """The k memories of the highest score, best first; see the module for the exact definition."""
        ...

    def held(self, kind: Kind) -> dict[str, str]:
        """The source of every memory of that kind, by id."""
        ...

    def forget(self, ids: Collection[str]) -> None:
        """Removes them; an id that is not there is no error."""
        ...

    def count(self) -> int:
        """How many memories there are."""
        ...

    def close(self) -> None:
        """Gives back memory and connections. The store is used no more."""
        ...


def ranked(
    found: Iterable[tuple[Memory, float]], *, k: int, now: datetime, floor: float, half_life_days: float
) -> list[Recalled]:
    """The best k of candidates, which come with their similarities."""
    moment = now.timestamp()
    scored: list[tuple[float, float, str, Recalled]] = []
    for memory, similarity in found:
        seconds = memory.seconds
        score = similarity * 2 ** (-max(0.0, moment - seconds) / DAY / half_life_days)
        if score > 0 and score >= floor:
            scored.append((-score, -seconds, memory.id, Recalled(memory, similarity, score)))
    return [recalled for *_, recalled in sorted(scored, key=lambda entry: entry[:3])[:k]]


def _storable(text: str) -> str:
    return text.encode(errors="replace").decode().replace("\0", "?")
