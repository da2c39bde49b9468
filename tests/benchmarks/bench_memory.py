"""What remembering 100,000 paragraphs of real text costs: `python tests/benchmarks/bench_memory.py`.

Times are of one process, the search's query embedded already; the floor is a bare product of the matrix and the query.
Recall is the share of the exact ten nearest that the store finds. The server is a private one on this machine.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from fakes.paragraphs import paragraphs
from fakes.postgres import postgres

from hermes_lab.config.schema import MemoryConfig
from hermes_lab.memory.embed import embed
from hermes_lab.memory.vector import Memory, VectorMemory
from hermes_lab.memory.vector_pgvector import PgvectorMemory
from hermes_lab.memory.vector_sqlite import SqliteMemory

ENTRIES, QUERIES, K = 100_000, 200, 10
NOW = datetime(2026, 3, 1, tzinfo=UTC)
DEFAULTS = MemoryConfig()


class Text(NamedTuple):
    """Memories of a year, oldest first; queries that are none of them; all vectors by text."""

    memories: list[Memory]
    queries: list[str]
    vectors: dict[str, np.ndarray]

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        return np.array([self.vectors[text] for text in texts])


def real_text() -> Text:
    """Queries are taken from all over the text."""
    texts = paragraphs(ENTRIES + QUERIES)
    order = np.random.default_rng(0).permutation(len(texts))
    queries, kept = [texts[n] for n in order[:QUERIES]], [texts[n] for n in order[QUERIES:]]
    started = time.perf_counter()
    vectors = dict(zip(texts, embed(texts), strict=True))
    print(f"{len(kept)} paragraphs; embedding one: {1e6 * (time.perf_counter() - started) / len(texts):.0f} us\n")
    year = timedelta(days=365) / len(kept)
    memories = [Memory.of("episodic", t, source="s", at=NOW - year * (len(kept) - n)) for n, t in enumerate(kept)]
    return Text(memories, queries, vectors)


def timed(search: Callable[[str], object], queries: Sequence[str]) -> str:
    times = []
    search(queries[0])
    for query in queries:
        started = time.perf_counter()
        search(query)
        times.append(1e3 * (time.perf_counter() - started))
    return f"{statistics.median(times):.1f} | {np.percentile(times, 95):.1f}"


def recall(store: VectorMemory, text: Text) -> float:
    """Of the ten nearest, by a product of matrices."""
    matrix = text.embed([memory.text for memory in text.memories])
    nearest = np.argsort(-(text.embed(text.queries) @ matrix.T), axis=1)[:, :K]
    found = [{r.memory.id for r in store.search(query, k=K, now=NOW)} for query in text.queries]
    exact = [{text.memories[n].id for n in row} for row in nearest]
    return sum(len(a & b) for a, b in zip(found, exact, strict=True)) / (K * len(exact))


def measure(name: str, store: VectorMemory, text: Text) -> None:
    """Prints the store's rows."""
    started = time.perf_counter()
    store.add(text.memories)
    print(f"| {name}: insert all, s | {time.perf_counter() - started:.1f} | | |", flush=True)
    started = time.perf_counter()
    store.search(text.queries[0], k=K, now=NOW)
    print(f"| {name}: first search | {1e3 * (time.perf_counter() - started):.0f} | | |")
    plain = timed(lambda query: store.search(query, k=K, now=NOW), text.queries)
    print(f"| {name}: top {K} | {plain} | {recall(store, text):.3f} |", flush=True)
    decay = {"floor": DEFAULTS.relevance, "half_life_days": DEFAULTS.half_life_days}
    decayed = timed(lambda query: store.search(query, k=K, now=NOW, **decay), text.queries)
    print(f"| {name}: top {K}, decay and floor as by default | {decayed} | |", flush=True)
    one = iter(text.memories[:QUERIES])
    store.forget([memory.id for memory in text.memories[:QUERIES]])
    print(f"| {name}: add one | {timed(lambda _: store.add([next(one)]), text.queries[:-1])} | |", flush=True)


def main() -> None:
    """Prints a table in Markdown."""
    text = real_text()
    print("| | median, ms | 95 %, ms | recall@10 |\n|---|---|---|---|")
    matrix = text.embed([memory.text for memory in text.memories])
    product = timed(lambda query: matrix @ text.vectors[query], text.queries)
    print(f"| floor: numpy, matrix @ query | {product} | |")
    with tempfile.TemporaryDirectory() as folder:
        measure("SQLite", SqliteMemory(Path(folder) / "memories.db", embed=text.embed), text)
    with postgres() as server:
        measure("pgvector", PgvectorMemory(server.database("bench"), embed=text.embed), text)


if __name__ == "__main__":
    main()
