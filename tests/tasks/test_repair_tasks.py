import ast
import dataclasses
import hashlib
import re
from collections.abc import Callable
from itertools import combinations
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_lab.errors import ConfigError
from hermes_lab.types import Task
from tasks.repair import suite as repair
from tasks.repair.house import SEEN, TOPICS, UNSEEN, House, draw_house
from tasks.repair.package import MAX_CHANGED_LINES, module_path
from tasks.repair.suite import CALLS, RepairSuite
from tasks.repair.topic import Topic
from tasks.repair.words import VOCABULARIES, Vocabulary
from tasks.worlds import WorldSpec

SUITE = RepairSuite()
SPLITS = st.sampled_from(SUITE.splits)
SMALL = st.integers(0, 10_000)


def load(split: str = "train", count: int = 1, seed: int = 0, world: int = 0) -> list[Task]:
    return SUITE.load(split=split, count=count, seed=seed, world=world)


def many(split: str = "heldout", worlds: int = 12) -> list[Task]:
    return [task for world in range(worlds) for task in load(split, 20, 0, world)]


def code_of(task: Task, body: str) -> Callable[..., Any]:
    """The function of the task's module with that body, loaded without the rest of its package."""
    text = task.files[task.truth["path"]].replace(task.truth["broken"], body)
    names: dict[str, Any] = {}
    exec("\n".join(line for line in text.splitlines() if not line.startswith("from ")), names)
    function: Callable[..., Any] = names[task.truth["function"]]
    return function


def share(task: Task, body: str, kind: str) -> float:
    """The share of a kind's calls at which a function with that body is right."""
    function, calls = code_of(task, body), task.truth["calls"][kind]
    right = 0
    for args, want in calls:
        try:
            right += function(*msgspec.json.decode(msgspec.json.encode(args))) == want
        except (TypeError, ValueError, KeyError):
            continue
    return right / len(calls)


def test_a_task_is_the_same_on_every_machine() -> None:
    content = msgspec.json.encode([task for split in SUITE.splits for task in load(split, 20, 3, 5)])
    assert hashlib.sha256(content).hexdigest()[:16] == "ca35586f7241c3b5"


@settings(max_examples=25)
@given(SPLITS, SMALL, SMALL)
def test_a_task_does_not_depend_on_how_many_are_loaded(split: str, seed: int, world: int) -> None:
    assert load(split, 2, seed, world) == load(split, 4, seed, world)[:2]


def test_ids_differ_between_splits_worlds_and_seeds() -> None:
    tasks = [t for s in SUITE.splits for seed in (0, 1) for world in (0, 1) for t in load(s, 20, seed, world)]
    assert len({task.id for task in tasks}) == len(tasks)
    assert not any("|" in task.id or "/" in task.id for task in tasks)


def test_two_thousand_tasks_of_a_world_are_distinct() -> None:
    tasks = load(count=2000)
    assert len({str(task.files) for task in tasks}) == 2000
    assert len({task.prompt for task in tasks}) > 1900


def test_every_component_is_equally_likely() -> None:
    components = [task.metadata["component"] for task in load(count=1400)]
    assert len(set(components)) == 7
    assert all(abs(components.count(component) - 200) < 60 for component in set(components))


def words(vocabulary: Vocabulary) -> set[str]:
    return set(vocabulary.packages + vocabulary.components + vocabulary.openings + vocabulary.closings)


@pytest.mark.parametrize(("first", "second"), list(combinations(VOCABULARIES, 2)))
def test_splits_share_no_word(first: str, second: str) -> None:
    assert not words(VOCABULARIES[first]) & words(VOCABULARIES[second])


@given(SPLITS, SMALL)
def test_a_world_has_the_conventions_that_its_spec_says(split: str, world: int) -> None:
    components = draw_house(split, world, WorldSpec(ruled=5, plain=2, unseen=2)).components
    ruled = [component.type for component in components if component.ruled]
    assert len({component.name for component in components}) == 7
    assert len(set(ruled)) == len(ruled) == 5
    assert sum(type_ in UNSEEN for type_ in ruled) == (2 if split == "heldout" else 0)
    assert split == "heldout" or not any(component.type in UNSEEN for component in components)


@settings(max_examples=40)
@given(SPLITS, SMALL, SMALL)
def test_nothing_shown_depends_on_the_conventions(split: str, seed: int, world: int) -> None:
    """The same tasks, with each convention there where none was, gone where one was, and about other numbers."""

    def turned(split: str, world: int, spec: WorldSpec) -> House:
        house = draw_house(split, world, spec)
        return dataclasses.replace(
            house,
            components=tuple(
                dataclasses.replace(c, ruled=not c.ruled, rule=c.topic.rules[c.topic.rules.index(c.rule) - 1])
                for c in house.components
            ),
        )

    tasks = load(split, 3, seed, world)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(repair, "draw_house", turned)
        others = load(split, 3, seed, world)
    assert [bool(task.triggers) for task in tasks] == [not task.triggers for task in others]
    assert [(task.prompt, task.files) for task in tasks] == [(task.prompt, task.files) for task in others]


def test_no_clause_of_a_convention_stands_in_a_prompt_or_file() -> None:
    for task in many():
        shown = task.prompt + "".join(task.files.values())
        for topic in TOPICS.values():
            fixed = (re.escape(clause).replace(r"\{rule\}", ".*") for clause in topic.clauses)
            assert not any(re.search(clause, shown) for clause in fixed)
        assert task.truth["right"] not in shown
        assert set(SEEN + UNSEEN).isdisjoint(re.findall(r"\w+", "".join(task.files)))


@pytest.mark.parametrize("split", SUITE.splits)
def test_the_reported_calls_are_wrong_now_and_right_after_either_fix(split: str) -> None:
    for task in many(split):
        assert share(task, task.truth["broken"], "public_tests") == 0.0
        assert share(task, task.truth["obvious"], "public_tests") == 1.0
        assert share(task, task.truth["right"], "public_tests") == 1.0


def test_the_code_of_a_fix_and_the_reference_agree() -> None:
    types = set()
    for task in many(worlds=40):
        types.add(task.metadata["rule_type"])
        assert share(task, task.truth["right"], "behaviour") == 1.0
        assert share(task, task.truth["right"], "convention") == 1.0
        assert share(task, task.truth["obvious"], "behaviour") == 1.0
        assert share(task, task.truth["obvious"], "convention") == (0.0 if task.triggers else 1.0)
    assert types == {"", *TOPICS}


OTHER_FIXES = {
    "ceil": "    return round(cents * PERCENT / 100)",
    "bare": '    return round(float(text.replace(",", "")) * 100)',
    "fault": "    return min(100, int(reading / FULL * 100))",
    "missing": "    return max(reading or 0 for reading in readings)",
    "ties": "    entries = sorted(entries, key=lambda e: float(e[1]))\n    return [e[0] for e in entries]",
    "reset": "    return {name: sum(a for n, a in entries if n == name) for name, _ in entries}",
    "later": "    return [name.casefold() for name in names].index(wanted.casefold())",
    "ditto": '    return line.replace(" ", "").split(SEPARATOR)',
    "quote": (
        "    import csv, io\n    out = io.StringIO()\n"
        '    csv.writer(out, delimiter=SEPARATOR, lineterminator="").writerow(fields)\n    return out.getvalue()'
    ),
    "draft": '    return tuple(map(int, one.split("."))) > tuple(map(int, other.split(".")))',
    "gap": "    return max(one[0], other[0]) < min(one[1], other[1])",
}
"""What else a person might write who knows of no convention."""


def test_every_obvious_fix_is_right_where_no_convention_holds() -> None:
    found = set()
    for world in range(60):
        components = {c.name: c for c in draw_house("heldout", world, SUITE.spec).components}
        for task in load("heldout", 12, 0, world):
            type_ = components[task.metadata["component"]].type
            if type_ in OTHER_FIXES:
                found.add((type_, not task.triggers))
                kinds = ("public_tests", "behaviour", *(() if task.triggers else ("convention",)))
                assert [share(task, OTHER_FIXES[type_], kind) for kind in kinds] == [1.0] * len(kinds), type_
                assert not task.triggers or share(task, OTHER_FIXES[type_], "convention") < 1.0
    assert found == {(type_, plain) for type_ in OTHER_FIXES for plain in (True, False)}


def test_hidden_calls_are_distinct_and_their_results_are_short() -> None:
    for task in many():
        kinds = task.truth["calls"]
        assert [len(kinds[kind]) for kind in ("public_tests", "behaviour", "convention")] == [2, CALLS, CALLS]
        hidden = [str(args) for kind in ("behaviour", "convention") for args, _ in kinds[kind]]
        assert len(set(hidden)) == 2 * CALLS
        results = [[want] for calls in kinds.values() for _, want in calls]
        assert len(msgspec.json.encode(results)) < 1500
        assert msgspec.json.decode(msgspec.json.encode(results)) == results


def test_workspaces_are_sound_python_and_their_fixes_are_small() -> None:
    for task in many("train", 4):
        for path, text in task.files.items():
            if path.endswith(".py"):
                ast.parse(text)
                assert text.endswith("\n")
                assert not text.endswith("\n\n")
        bodies = (task.truth["broken"], task.truth["right"])
        assert sum(len(body.splitlines()) for body in bodies) <= MAX_CHANGED_LINES // 2
        assert task.files[task.truth["path"]].count(task.truth["broken"]) == 1


@pytest.mark.parametrize("topic", TOPICS.values(), ids=TOPICS)
def test_no_fix_is_as_long_as_what_it_mends(topic: Topic) -> None:
    """Python takes a module for unchanged if its size and the second of its change are the same."""
    fixes = {topic.plain_code, *(topic.house_code.replace("RULE", repr(rule)) for rule in topic.rules)}
    assert not set(map(len, fixes)) & set(map(len, topic.broken_code))


def test_prompts_name_the_module_and_how_to_test_it() -> None:
    for split in SUITE.splits:
        for task in many(split, 2):
            assert task.truth["path"] in task.prompt
            assert "`python3 -m unittest discover tests`" in task.prompt
            assert f"{task.truth['function']}(" in task.prompt
            assert "{" not in re.sub(r"\{'\w+': .*?\}", "", task.prompt)


def test_a_rejection_tells_the_convention_and_no_result() -> None:
    for task in many():
        hint = task.truth["hint"]
        assert bool(hint) == bool(task.triggers)
        assert "{" not in hint
        assert not hint or hint.startswith("Rejected")
    assert len({re.sub(r"\d+", "N", task.truth["hint"]) for task in many()}) > 60


def test_metadata_says_what_training_has_seen() -> None:
    tasks = many()
    for task in tasks:
        type_ = task.metadata["rule_type"]
        assert task.triggers == ((f"{task.metadata['component']}:{type_}",) if type_ else ())
        assert task.metadata["seen"] == (type_ not in UNSEEN)
    assert {task.metadata["seen"] for task in tasks} == {True, False}


def test_two_other_modules_of_the_house_lie_beside_the_broken_one() -> None:
    house = draw_house("train", 0, SUITE.spec)
    paths = {module_path(house.package, component.name) for component in house.components}
    for task in load(count=20):
        assert len(paths & set(task.files)) == 3


@pytest.mark.parametrize(("ruled", "plain"), [(1, 0), (0, 1), (8, 4)])
def test_worlds_may_be_small_or_large(ruled: int, plain: int) -> None:
    suite = RepairSuite(WorldSpec(ruled=ruled, plain=plain, unseen=0))
    tasks = suite.load(split="heldout", count=200, seed=0, world=0)
    assert len({task.metadata["component"] for task in tasks}) == ruled + plain
    assert {bool(task.triggers) for task in tasks} == {bool(flag) for flag in [1] * ruled + [0] * plain}


def test_an_unknown_split_or_an_endless_count_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"suite\.split: repair .*'test'.*heldout"):
        load("test")
    with pytest.raises(ConfigError, match=r"suite\.count: .*endless"):
        load(count=0)
