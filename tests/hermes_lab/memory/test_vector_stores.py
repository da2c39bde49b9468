"""One contract for all stores: SQLite, PostgreSQL with pgvector on a real server, and the plain definition."""

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from fakes.postgres import Postgres, postgres
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_lab.memory import vector_pgvector
from hermes_lab.memory.embed import DIMENSIONS, embed
from hermes_lab.memory.vector import KINDS, Kind, Memory, Recalled, VectorMemory, Wanted
from hermes_lab.memory.vector_pgvector import PgvectorMemory
from hermes_lab.memory.vector_sqlite import SqliteMemory

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
Embed = Callable[[Sequence[str]], "np.ndarray"]
Open = Callable[..., VectorMemory]


class PlainMemory(VectorMemory):
    """The definition, word for word."""

    def __init__(self, embed: Embed = embed) -> None:
        self.memories: dict[str, Memory] = {}
        self._embed = embed

    def add(self, memories: Sequence[Memory]) -> None:
        for memory in memories:
            self.memories.setdefault(memory.id, memory)

    def _search(self, query: str, wanted: Wanted) -> list[Recalled]:
        found = []
        for memory in list(self.memories.values()):
            a, b = self._embed([query, memory.text]).astype(float)
            cosine = float((a * b).sum())
            age = max(0.0, (wanted.now - datetime.fromisoformat(memory.at)).total_seconds() / 86_400)
            score = cosine * math.exp(-math.log(2) / wanted.half_life_days * age)
            if score > 0 and score >= wanted.floor and memory.kind in wanted.kinds:
                found.append(Recalled(memory, cosine, score))
        found.sort(key=lambda r: r.memory.id)
        found.sort(key=lambda r: r.memory.at, reverse=True)
        found.sort(key=lambda r: r.score, reverse=True)
        return found[: wanted.k]

    def held(self, kind: Kind) -> dict[str, str]:
        return {memory.id: memory.source for memory in self.memories.values() if memory.kind == kind}

    def forget(self, ids: Collection[str]) -> None:
        self.memories = {id: memory for id, memory in self.memories.items() if id not in ids}

    def count(self) -> int:
        return len(self.memories)

    def close(self) -> None:
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres() as running:
        running.database("memories")
        yield running


@pytest.fixture(params=["plain", "sqlite", "postgres"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Opens one and the same store, again and again; the plain one is there once."""
    opened: list[VectorMemory] = []
    if request.param == "postgres":
        server: Postgres = request.getfixturevalue("server")
        server.run("DROP TABLE IF EXISTS hermes_memories, hermes_memory_version", "memories")
        url = server.url("memories")

    def open_it(embed: Embed = embed) -> VectorMemory:
        if request.param == "plain":
            store: VectorMemory = opened[0] if opened else PlainMemory(embed)
        elif request.param == "sqlite":
            store = SqliteMemory(tmp_path / "home" / "memories.db", embed=embed)
        else:
            store = PgvectorMemory(url, embed=embed)
        opened.append(store)
        return store

    yield open_it
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: Open) -> VectorMemory:
    return open_store()


def said(text: str, *, days: float = 0, kind: Kind = "episodic", source: str = "s") -> Memory:
    return Memory.of(kind, text, source=source, at=NOW - timedelta(days=days))


def texts(found: Sequence[Recalled]) -> list[str]:
    return [recalled.memory.text for recalled in found]


FISH = "the fish in the aquarium swim in cold water"
BANK = "the bank raised the interest on its loans"
TAXES = "taxes on loans and interest are due in spring"


def test_what_is_alike_is_found_first(store: VectorMemory) -> None:
    store.add([said(FISH), said(BANK), said(TAXES)])
    found = store.search("how much interest does a loan cost at the bank", k=2, now=NOW)
    assert texts(found) == [BANK, TAXES]
    assert found[0].similarity == found[0].score
    assert 0.5 < found[0].similarity <= 1.000001


def test_a_memory_comes_back_as_it_was(store: VectorMemory) -> None:
    text = "a lone \ud800 surrogate, a NUL \0, 'quotes' and emoji 🐟"
    memory = Memory.of("semantic", text, source="a\0b", at=NOW.astimezone(), metadata={"stop": "an\0swered", "ü": ""})
    store.add([memory])
    assert [recalled.memory for recalled in store.search(text, k=1, now=NOW)] == [memory]
    assert memory.text == "a lone ? surrogate, a NUL ?, 'quotes' and emoji 🐟"


def test_a_memory_is_kept_once_and_as_it_was_first(store: VectorMemory) -> None:
    first = said(FISH, days=9)
    store.add([first, first])
    store.add([said(FISH), said(FISH, source="elsewhere"), said(FISH, kind="semantic")])
    assert store.count() == 3
    assert first in [recalled.memory for recalled in store.search(FISH, k=5, now=NOW)]


def test_a_memory_is_worth_half_after_its_half_life(store: VectorMemory) -> None:
    store.add([said(FISH, days=30)])
    [found] = store.search(FISH, k=1, now=NOW, half_life_days=30)
    assert found.score == pytest.approx(found.similarity / 2, rel=1e-9)
    [found] = store.search(FISH, k=1, now=NOW - timedelta(days=60), half_life_days=30)
    assert found.score == found.similarity  # what lies in the future is not worth more than all


def test_the_best_by_score_are_not_the_most_similar_ones_reordered(store: VectorMemory) -> None:
    store.add([said(BANK, days=300, source=f"{n}") for n in range(250)] + [said(TAXES, days=1)])
    found = store.search(BANK, k=1, now=NOW, half_life_days=30)
    assert texts(found) == [TAXES]


def test_what_is_under_the_floor_is_not_found_whatever_k(store: VectorMemory) -> None:
    store.add([said(BANK, days=20), said(BANK, days=40, source="older"), said(FISH)])
    found = store.search(BANK, k=9, now=NOW, floor=0.5, half_life_days=30)
    assert [recalled.memory.at for recalled in found] == [said(BANK, days=20).at]


def test_the_newest_comes_first_among_equals_then_the_lowest_id(store: VectorMemory) -> None:
    same = [said(FISH, days=2, source=f"{n}") for n in range(20)]
    newer, older = said(FISH, days=1, source="newer"), said(FISH, days=3, source="older")
    store.add([older, *same, newer])
    order = [newer.id, *sorted(memory.id for memory in same), older.id]
    assert [recalled.memory.id for recalled in store.search(FISH, k=30, now=NOW)] == order
    assert [recalled.memory.id for recalled in store.search(FISH, k=5, now=NOW)] == order[:5]


def test_only_the_kinds_asked_for_are_found(store: VectorMemory) -> None:
    store.add([said(FISH, kind=kind) for kind in KINDS])
    for kinds in (KINDS, KINDS[1:], KINDS[2:], ()):
        found = store.search(FISH, k=9, now=NOW, kinds=kinds)
        assert sorted(recalled.memory.kind for recalled in found) == sorted(kinds)


def test_a_text_without_a_word_is_like_nothing(store: VectorMemory) -> None:
    store.add([said(" \n"), said(FISH)])
    assert store.search("", k=9, now=NOW) == []
    assert texts(store.search(FISH, k=9, now=NOW)) == [FISH]


def test_an_ancient_memory_overflows_nothing(store: VectorMemory) -> None:
    store.add([said(FISH, days=300_000), said(BANK, days=1)])
    assert texts(store.search(FISH, k=9, now=NOW, half_life_days=0.5)) in ([BANK], [])
    assert store.search(FISH, k=9, now=NOW + timedelta(days=9_000), half_life_days=0.5) == []


def test_nothing_is_found_where_nothing_is(store: VectorMemory) -> None:
    store.add([])
    store.forget([])
    assert (store.count(), store.search(FISH, k=3, now=NOW)) == (0, [])


def test_what_is_forgotten_is_gone_and_can_be_remembered_again(store: VectorMemory) -> None:
    store.add([said(FISH), said(BANK), said(TAXES)])
    assert len(store.search(FISH, k=9, now=NOW)) == 3
    store.forget([said(FISH).id, said(TAXES).id, "not there"])
    assert texts(store.search(FISH, k=9, now=NOW)) == [BANK]
    store.add([said(FISH)])
    assert texts(store.search(FISH, k=1, now=NOW)) == [FISH]
    assert store.count() == 2


def test_what_is_held_is_told_by_kind(store: VectorMemory) -> None:
    store.add([said(FISH, source="a"), said(BANK, source="b", kind="declarative")])
    assert store.held("declarative") == {said(BANK, source="b", kind="declarative").id: "b"}
    assert store.held("semantic") == {}


def test_what_another_one_adds_or_forgets_is_known_at_the_next_search(open_store: Open) -> None:
    here, there = open_store(), open_store()
    here.add([said(FISH)])
    assert texts(there.search(FISH, k=9, now=NOW)) == [FISH]
    there.add([said(f"{FISH}, and there are {n} of them") for n in range(30)])
    assert len(here.search(FISH, k=99, now=NOW)) == 31
    here.forget([said(FISH).id])
    assert FISH not in texts(there.search(FISH, k=99, now=NOW))
    assert open_store().count() == 30


def test_threads_share_a_store(store: VectorMemory) -> None:
    def one(number: int) -> int:
        store.add([said(f"{FISH} number {number}"), said(FISH)])
        return len(store.search(FISH, k=99, now=NOW))

    with ThreadPoolExecutor(8) as pool:
        seen = list(pool.map(one, range(24)))
    assert store.count() == 25
    assert min(seen) >= 2
    assert len(store.search(FISH, k=99, now=NOW)) == 25


_AXES = np.array([[1, 0], [0.6, 0.8], [0.8, 0.6], [0, 1], [-1, 0], [0, 0]], np.float32)


def _few_directions(texts: Sequence[str]) -> "np.ndarray":
    """A text is a direction in a plane: full of ties, right angles and opposites."""
    rows = np.zeros((len(texts), DIMENSIONS), np.float32)
    for row, text in zip(rows, texts, strict=True):
        row[:2] = _AXES[int(text)]
    return rows


_memories = st.lists(
    st.builds(
        lambda text, days, kind, source: said(str(text), days=days, kind=kind, source=source),
        text=st.integers(0, len(_AXES) - 1),
        days=st.integers(-3, 12),
        kind=st.sampled_from(KINDS),
        source=st.sampled_from("abcdef"),
    ),
    max_size=60,
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    memories=_memories,
    query=st.integers(0, len(_AXES) - 1),
    k=st.sampled_from([1, 2, 3, 12]),
    kinds=st.sets(st.sampled_from(KINDS), min_size=1),
    floor=st.sampled_from([0.0, 0.001, 0.3, 0.9]),
    half_life=st.sampled_from([1.0, 4.0, math.inf]),
    gone=st.sets(st.integers(0, 39), max_size=5),
    nearest=st.sampled_from([1, 3, 100]),
)
def test_every_store_finds_what_the_definition_says(
    open_store: Open,
    memories: list[Memory],
    query: int,
    k: int,
    kinds: set[Kind],
    floor: float,
    half_life: float,
    gone: set[int],
    nearest: int,
) -> None:
    plain, store = PlainMemory(_few_directions), open_store(_few_directions)
    store.forget([id for kind in KINDS for id in store.held(kind)])
    with pytest.MonkeyPatch.context() as patch:  # so that PostgreSQL's proofs fail, and succeed, on little data
        patch.setattr(vector_pgvector, "_NEAREST", nearest)
        if nearest < 100:
            patch.setattr(vector_pgvector, "_ARE_FEW", "SELECT false")
        for either in (plain, store):
            either.add(memories)
            either.search("0", k=1, now=NOW)
            either.forget([memory.id for number, memory in enumerate(memories) if number in gone])
        expected, found = (
            each.search(str(query), k=k, now=NOW, kinds=kinds, floor=floor, half_life_days=half_life)
            for each in (plain, store)
        )
    store.close()
    assert [r.memory for r in found] == [r.memory for r in expected]
    assert [r.score for r in found] == pytest.approx([r.score for r in expected], abs=1e-6)


def test_fewer_than_k_prove_nothing_of_those_that_the_index_did_not_give(
    open_store: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_pgvector, "_ARE_FEW", "SELECT false")
    store = open_store(_few_directions)
    alike_but_old = [said("2", days=40, source=f"{n}") for n in range(250)]
    store.add([*alike_but_old, said("0"), said("1")])
    assert texts(store.search("0", k=2, now=NOW, floor=0.35, half_life_days=30)) == ["0", "1"]
