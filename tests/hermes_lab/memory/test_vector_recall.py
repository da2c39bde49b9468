"""Among many memories of real text, a store finds what an exact search finds."""

import math
import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from fakes.paragraphs import paragraphs
from fakes.postgres import postgres

from hermes_lab.memory.embed import embed
from hermes_lab.memory.vector import Memory, VectorMemory
from hermes_lab.memory.vector_pgvector import PgvectorMemory
from hermes_lab.memory.vector_sqlite import SqliteMemory

ENTRIES = int(os.environ.get("SIMULATIONS", "8000"))
"""`make simulations` has 100,000."""
QUERIES, K = 100, 10
NOW = datetime(2026, 3, 1, tzinfo=UTC)


class Corpus:
    """Memories of a year, and queries that are none of them."""

    def __init__(self) -> None:
        texts = paragraphs(ENTRIES + QUERIES)
        self._vectors = dict(zip(texts, embed(texts), strict=True))
        order = np.random.default_rng(1).permutation(len(texts)).tolist()
        self.queries = [texts[n] for n in order[:QUERIES]]
        self.days = np.linspace(365, 0, len(texts) - QUERIES)
        self.memories = [
            Memory.of("episodic", texts[n], source="s", at=NOW - timedelta(days=days))
            for n, days in zip(order[QUERIES:], self.days.tolist(), strict=True)
        ]

    def embed(self, texts: Sequence[str]) -> "np.ndarray":
        return np.array([self._vectors[text] for text in texts])

    def recall(self, store: VectorMemory, floor: float, half_life_days: float) -> float:
        """The share of the exact search's memories that the store finds."""
        matrix = self.embed([memory.text for memory in self.memories])
        expected = found = 0
        for query in self.queries:
            scores = (matrix @ self._vectors[query]) * np.exp(-math.log(2) / half_life_days * self.days)
            exact = {self.memories[n].id for n in np.argsort(-scores)[:K] if scores[n] >= floor}
            got = store.search(query, k=K, now=NOW, floor=floor, half_life_days=half_life_days)
            expected += len(exact)
            found += len(exact & {recalled.memory.id for recalled in got})
        return found / expected


@pytest.mark.long
def test_among_many_memories_both_stores_find_what_an_exact_search_finds(tmp_path: Path) -> None:
    corpus = Corpus()
    assert len(corpus.memories) > 0.9 * ENTRIES
    exact: VectorMemory = SqliteMemory(tmp_path / "memories.db", embed=corpus.embed)
    exact.add(corpus.memories)
    with postgres() as server:
        indexed: VectorMemory = PgvectorMemory(server.database("memories"), embed=corpus.embed)
        indexed.add(corpus.memories)
        for floor, half_life in [(0.0, math.inf), (0.35, 30.0), (0.35, 300.0)]:
            assert corpus.recall(exact, floor, half_life) == pytest.approx(1, abs=0.001)
            assert corpus.recall(indexed, floor, half_life) >= 0.95
        indexed.close()
