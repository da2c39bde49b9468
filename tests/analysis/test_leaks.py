"""Leaks: literals of answers in skills."""

import pytest

from hermes_lab.analysis.skill_effects.leaks import Answer, Leak, literals, scan, secrets
from hermes_lab.skills.format import parse, render
from hermes_lab.types import Skill


def skill(body: str, name: str = "fleet", **files: bytes) -> Skill:
    return parse(render(name, "About the fleet desk", body), files)


def answer(task: str, *texts: str, known: str = "Total the export, please.") -> Answer:
    return Answer(task_id=task, answer=texts, known=(known,))


ONE, TWO = answer("t1", '{"total": 48213.77}'), answer("t2", '{"total": 1050.25}')


NOTATIONS = [
    *("It is 48213.77.", "| 48,213.77 |", "total=48213.770", "about -48213.77 EUR", "12,48213.77,3", "48213,77"),
    *("48 213.77", "48\u202f213.77", "48.213,77", "48'213.77", "48_213.77", "48213.77-", "_48213.77_", "**48213.77**"),
    *("EUR48213.77", "48213.77EUR", "€48,213.77"),
]


@pytest.mark.parametrize("told", NOTATIONS)
def test_an_answer_in_a_skill_is_found_however_the_number_is_written(told: str) -> None:
    assert scan([skill(told)], [ONE, TWO]) == [Leak(skill="fleet", task_id="t1", literals=("48213.77",))]


def test_an_answer_in_another_file_of_the_skill_is_found() -> None:
    (leak,) = scan([skill("See notes.", **{"notes.md": b"the last total was 1050.25"})], [ONE, TWO])
    assert (leak.task_id, leak.literals) == ("t2", ("1050.25",))


@pytest.mark.parametrize(
    "told",
    [
        *("Run ./ledger sum with --net.", "Round to 2 decimals; 48213 rows.", "148213.77", "48213.775", "148,213.77"),
        *("1 148 213.77", "1.48213.77", "48213.77.1", "row-48213.77", "4821377", "4.821377e4"),
    ],
)
def test_what_is_no_answer_is_no_leak(told: str) -> None:
    assert scan([skill(told)], [ONE, TWO]) == []


def test_what_the_task_shows_and_what_its_rule_tells_is_no_leak() -> None:
    shown = answer("t1", "48213.77 by form-77a of office Q-1188", known="Use form-77a; the sum so far is 48,213.77.")
    (leak,) = scan([skill("48213.77 by form-77a of office Q-1188")], [shown])
    assert leak.literals == ("Q-1188",)


def test_groups_of_a_longer_number_are_no_answer() -> None:
    whole = [answer("t1", "213100"), TWO]
    for told in ("213,100", "213 100.00", "5,213100,7"):
        assert scan([skill(told)], whole), told
    for told in ("1,213,100", "213,100,000", "5 213 100", "q213100", "ord-213100"):
        assert not scan([skill(told)], whole), told


def test_ids_and_words_are_found_in_any_case() -> None:
    answers = [answer("t1", "Ord-48213 for 'Marguerite'"), answer("t2", "ord-48214")]
    (leak,) = scan([skill("Ask MARGUERITE about ord-48213, not about cord-48214.")], answers)
    assert (leak.task_id, leak.literals) == ("t1", ("Marguerite", "Ord-48213"))
    assert scan([skill("marguerites")], answers) == []


def test_what_a_task_shows_in_another_notation_is_known() -> None:
    assert secrets([answer("t1", "48213.77 by Q-1188x", known="So far 48.213,77, see q-1188X.")]) == {"t1": frozenset()}


def test_what_several_answers_share_is_a_word_of_the_trade() -> None:
    answers = [answer("t1", "schema-v12 48213.77"), answer("t2", "schema-v12 1050.25")]
    assert secrets(answers) == {"t1": {"48213.77"}, "t2": {"1050.25"}}
    assert scan([skill("Write schema-v12.")], answers) == []


def test_quoted_strings_and_whole_lines_are_literals_and_short_things_are_not() -> None:
    line = "The committee of nine elders meets in the old mill on every second Thursday."
    assert literals(f"'blue heron' and \"ok\"\n{line}\nfor place, name in enumerate(names):\n42 x1 3.5") == {
        "blue heron",
        line,
    }
    (leak,) = scan([skill(f"They say:\n  {line}")], [answer("t1", f"Minutes\n\n{line}\n")])
    assert leak.literals == (line,)
