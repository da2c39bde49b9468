"""The bugs of the domain, without a sandbox: fixes as people write them against the references of the harness."""

import ast
import json
from collections.abc import Callable
from itertools import combinations
from typing import Any

import pytest

from hermes_lab.tasks.code_debugging._modules import CALLS, Defect, draw_agreed_calls, draw_defect, draw_plain_calls
from hermes_lab.tasks.code_debugging._topics import SEEN, TOPICS, UNSEEN
from hermes_lab.tasks.code_debugging.repair import FAMILY, _draw_telling_calls
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Rule, draw_rule
from tests.tasks.code_debugging.houses import scene_of, suite_of

SOME = range(40)


def drawn(type_: str, number: int) -> tuple[Defect, Rule, Draws]:
    draws = Draws("topics", type_, number)
    split = draws.choice(tuple(TOPICS[type_].names))
    return draw_defect(type_, split, draws), draw_rule(type_, FAMILY.rules[type_], draws, None), draws


def code_of(defect: Defect, body: str) -> Callable[..., Any]:
    """The function with another body; it answers with an error's name where it fails."""
    names: dict[str, Any] = {}
    exec(defect.constant_line + defect.text.replace(defect.broken, body), names)

    def call(args: list[Any]) -> object:
        try:
            return names[defect.function](*json.loads(json.dumps(args)))
        except Exception as error:
            return type(error).__name__

    return call


@pytest.mark.parametrize("type_", TOPICS)
def test_the_reported_calls_are_wrong_now_and_right_after_any_fix(type_: str) -> None:
    for number in SOME:
        defect, _, _ = drawn(type_, number)
        fixes = [defect.topic.plain_code, *map(defect.topic.house_fix, defect.topic.rules)]
        for args, want in zip(defect.reported, defect.plain(defect.reported), strict=True):
            assert code_of(defect, defect.broken)(args) != want
            assert [code_of(defect, fix)(args) for fix in fixes] == [want] * len(fixes)


@pytest.mark.parametrize("type_", TOPICS)
def test_code_and_reference_agree_and_the_obvious_fix_fails_where_the_rule_tells(type_: str) -> None:
    for number in SOME:
        defect, rule, draws = drawn(type_, number)
        topic, constant = defect.topic, defect.constant
        plain, house = code_of(defect, topic.plain_code), code_of(defect, topic.house_fix(rule["rule"]))
        for args in draw_agreed_calls(defect, CALLS, draws):
            assert plain(args) == house(args) == topic.plain(constant, *args)
        for args in draw_plain_calls(defect, CALLS, draws):
            assert plain(args) == topic.plain(constant, *args)
        telling = _draw_telling_calls(defect, draws)
        assert [house(args) for args in telling] == [topic.house(constant, rule["rule"], *args) for args in telling]
        assert sum(plain(args) != house(args) for args in telling) >= 2


@pytest.mark.parametrize("type_", TOPICS)
def test_whoever_believes_another_number_or_a_rule_where_none_holds_is_wrong_somewhere(type_: str) -> None:
    for number in SOME:
        defect, rule, draws = drawn(type_, number)
        for believed in defect.topic.rules:
            code = code_of(defect, defect.topic.house_fix(believed))
            for held in (rule, None):
                if held is None or held["rule"] != believed:
                    right = code_of(defect, defect.topic.house_fix(held["rule"]) if held else defect.topic.plain_code)
                    assert any(code(args) != right(args) for args in _draw_telling_calls(defect, draws))


OTHER_FIXES = {
    "ceil": "    return round(cents * PERCENT / 100)",
    "bare": '    return round(float(text.replace(",", "")) * 100)',
    "fault": "    return min(100, int(reading / FULL * 100))",
    "missing": "    return max(reading or 0 for reading in readings)",
    "guest": "    entries = sorted(entries, key=lambda e: float(e[1]))\n    return [e[0] for e in entries]",
    "reset": "    return {name: sum(a for n, a in entries if n == name) for name, _ in entries}",
    "mark": (
        "    names = [name.casefold() for name in names]\n"
        "    return names.index(wanted.casefold()) if wanted.casefold() in names else -1"
    ),
    "ditto": '    return line.replace(" ", "").split(SEPARATOR)',
    "quote": (
        "    import csv, io\n    out = io.StringIO()\n"
        '    csv.writer(out, delimiter=SEPARATOR, lineterminator="").writerow(fields)\n    return out.getvalue()'
    ),
    "draft": '    return tuple(map(int, one.split("."))) > tuple(map(int, other.split(".")))',
    "gap": "    return max(one[0], other[0]) < min(one[1], other[1])",
}
"""What else a person might write who knows of no convention."""


@pytest.mark.parametrize("type_", OTHER_FIXES)
def test_every_obvious_fix_is_right_where_no_convention_holds(type_: str) -> None:
    for number in SOME:
        defect, rule, draws = drawn(type_, number)
        code = code_of(defect, OTHER_FIXES[type_])
        open_to_all = [*defect.reported, *draw_agreed_calls(defect, CALLS, draws), *draw_plain_calls(defect, 20, draws)]
        for args in [*open_to_all, *_draw_telling_calls(defect, draws)]:
            assert code(args) == defect.topic.plain(defect.constant, *args)
        assert any(
            code(args) != defect.topic.house(defect.constant, rule["rule"], *args)
            for args in _draw_telling_calls(defect, draws)
        )


@pytest.mark.parametrize("type_", TOPICS)
def test_no_fix_is_as_long_as_what_it_mends(type_: str) -> None:
    """Python takes a module for unchanged if its size and the second of its change are the same."""
    topic = TOPICS[type_]
    fixes = {topic.plain_code, *map(topic.house_fix, topic.rules)}
    assert not set(map(len, fixes)) & set(map(len, topic.broken_code))


def test_topics_of_held_out_worlds_alone_have_no_words_for_others() -> None:
    assert all(set(TOPICS[name].names) == {"heldout"} for name in UNSEEN)
    assert all(set(TOPICS[name].names) == {"train", "validation", "heldout"} for name in SEEN)


@pytest.mark.parametrize(("first", "second"), list(combinations(("train", "validation", "heldout"), 2)))
def test_splits_share_no_function_and_no_complaint(first: str, second: str) -> None:
    for words in ("names", "complaints"):
        one, other = (
            {word for topic in TOPICS.values() for word in getattr(topic, words).get(split, ())}
            for split in (first, second)
        )
        assert not one & other


@pytest.mark.parametrize("family", ["repair", "stale_build", "plugins", "test_order"])
@pytest.mark.parametrize("split", ["train", "validation", "heldout"])
def test_workspaces_are_sound_python(family: str, split: str) -> None:
    for world in range(8):
        for task in suite_of(family).load(split=split, count=4, seed=0, world=world):
            for path, text in task.files.items():
                assert text.endswith("\n")
                assert not text.endswith("\n\n")
                assert not path.endswith(".py") or ast.parse(text)
            outputs = scene_of(task).outputs
            assert set(scene_of(task).inputs) == set(task.files) - set(outputs)
