import csv
import hashlib
import io
from itertools import combinations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_lab.errors import ConfigError
from hermes_lab.types import Task
from tasks.ledger.hints import read_hint, write_hint
from tasks.ledger.house import draw_house, draw_table
from tasks.ledger.rules import RULE_TYPES, SEEN, UNSEEN, draw_rule, plain_total
from tasks.ledger.suite import LedgerSuite
from tasks.ledger.words import VOCABULARIES, Vocabulary
from tasks.worlds import Draws, WorldSpec

SUITE = LedgerSuite()
SPLITS = st.sampled_from(SUITE.splits)
SMALL = st.integers(0, 10_000)


def load(split: str = "train", count: int = 1, seed: int = 0, world: int = 0) -> list[Task]:
    return SUITE.load(split=split, count=count, seed=seed, world=world)


def words(vocabulary: Vocabulary) -> set[str]:
    values = {word for category in vocabulary.categories for word in (category.column, *category.values)}
    rest = (
        vocabulary.desks,
        vocabulary.documents,
        vocabulary.ordinals,
        vocabulary.quantities,
        vocabulary.charges,
    )
    return values.union(*rest)


def test_a_task_is_the_same_on_every_machine() -> None:
    content = msgspec.json.encode([task for split in SUITE.splits for task in load(split, 20, 3, 5)])
    assert hashlib.sha256(content).hexdigest()[:16] == "08bc15142a08fcbd"


@given(SPLITS, SMALL, SMALL)
def test_a_task_does_not_depend_on_how_many_are_loaded(split: str, seed: int, world: int) -> None:
    assert load(split, 3, seed, world) == load(split, 5, seed, world)[:3]


def test_ids_differ_between_splits_worlds_and_seeds() -> None:
    tasks = [t for s in SUITE.splits for seed in (0, 1) for world in (0, 1) for t in load(s, 50, seed, world)]
    ids = {task.id for task in tasks}
    assert len(ids) == len(tasks)
    assert not any("|" in name or "/" in name for name in ids)


def test_tasks_are_distinct() -> None:
    tasks = load(count=1000)
    assert len({str(task.files) for task in tasks}) == 1000
    assert len({task.prompt for task in tasks}) > 980


def test_every_desk_is_equally_likely() -> None:
    desks = [task.metadata["desk"] for task in load(count=1400)]
    assert len(set(desks)) == 7
    assert all(abs(desks.count(desk) - 200) < 60 for desk in set(desks))


@pytest.mark.parametrize(("first", "second"), list(combinations(VOCABULARIES, 2)))
def test_splits_share_no_word(first: str, second: str) -> None:
    assert not words(VOCABULARIES[first]) & words(VOCABULARIES[second])


@given(SPLITS, SMALL)
def test_a_world_has_the_rules_that_its_spec_says(split: str, world: int) -> None:
    spec = WorldSpec(ruled=5, plain=2, unseen=2)
    house = draw_house(split, world, spec)
    types = [desk.rule.type for desk in house if desk.rule]
    assert len({desk.name for desk in house}) == 7
    assert len(set(types)) == len(types) == 5
    assert sum(type_ in UNSEEN for type_ in types) == (2 if split == "heldout" else 0)


@pytest.mark.parametrize("type_", RULE_TYPES)
def test_every_type_of_rule_moves_the_total_of_every_table(type_: str) -> None:
    for world in range(60):
        desk = draw_house("train", world, WorldSpec())[world % 7]
        draws = Draws("test", type_, world)
        rule, rows = draw_rule(type_, draws, desk.shape), draw_table(desk.shape, draws)
        assert abs(rule.total(rows) - plain_total(rows)) > 1
        assert 20 <= len(rows) <= 60


@given(SPLITS, SMALL, SMALL)
def test_nothing_shown_before_the_first_submission_tells_the_rule(split: str, seed: int, world: int) -> None:
    for task in load(split, 4, seed, world):
        assert not task.truth["flags"] or task.truth["flags"] not in task.prompt + "".join(task.files.values())
        assert "--" not in task.prompt
        assert set(task.files) == {"ledger", task.truth["file"]}


def test_the_tool_is_the_same_file_in_every_world() -> None:
    assert len({task.files["ledger"] for s in SUITE.splits for w in range(5) for task in load(s, 3, 0, w)}) == 1


def test_all_exports_have_the_same_kinds_of_columns() -> None:
    for task in load("heldout", 50):
        rows = list(csv.DictReader(io.StringIO(task.files[task.truth["file"]])))
        assert len(rows[0]) == 9
        assert list(rows[0])[-1] == "amount"


@given(SPLITS, SMALL, st.sampled_from(SEEN + UNSEEN), SMALL)
def test_a_hint_is_read_as_it_was_written(split: str, world: int, type_: str, key: int) -> None:
    desk, draws = draw_house(split, world, WorldSpec())[0], Draws("hint", key)
    rule = draw_rule(type_, draws, desk.shape)
    hint = read_hint(write_hint(desk.name, rule, draws))
    assert hint is not None
    assert hint.flags == rule.flags
    clauses = [clause.format(**rule.literals._asdict()) for clause in RULE_TYPES[type_].clauses]
    assert hint.clause in clauses


def test_other_feedback_holds_no_hint() -> None:
    assert read_hint("Rejected: answer.json is missing.") is None
    assert read_hint("The submission was not accepted.") is None


def test_metadata_says_what_training_has_seen() -> None:
    tasks = [task for world in range(10) for task in load("heldout", 30, 0, world)]
    for task in tasks:
        type_ = task.metadata["rule_type"]
        assert task.triggers == ((f"{task.metadata['desk']}:{type_}",) if type_ else ())
        assert task.metadata["seen"] == (type_ not in UNSEEN)
    assert {task.metadata["seen"] for task in tasks} == {True, False}


def test_an_unknown_split_or_an_endless_count_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"suite\.split: .*'test'.*heldout"):
        load("test")
    with pytest.raises(ConfigError, match=r"suite\.count: .*endless"):
        load(count=0)
