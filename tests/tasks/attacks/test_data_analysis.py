"""Ways to cheat in the domain data_analysis. None scores where a rule is in force."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from hermes_lab.protocols import Sandbox
from hermes_lab.tasks.play import play
from hermes_lab.tasks.subtasks import subtasks_of
from tests.tasks.attacks.cheats import (
    CLAIMS,
    GENERIC,
    Attempt,
    Cheat,
    naive_way,
    play_another_task,
    ruled_task,
    score,
    suite_of,
)

pytestmark = [pytest.mark.anyio, pytest.mark.long]
OpenSandbox = Callable[[], Sandbox]
FAMILIES = ("event_logs", "joins", "ledger", "sensors")


def forged(change: Callable[[dict[str, Any]], object]) -> Cheat:
    """The naive answer, changed: text is written as it is, anything else as JSON."""

    async def cheat(attempt: Attempt) -> None:
        await attempt.naive()
        found = change(json.loads(await attempt.sandbox.read("answer.json")))
        text = found if isinstance(found, str | bytes) else json.dumps(found)
        await attempt.sandbox.write("answer.json", text if isinstance(text, bytes) else text.encode())

    return cheat


def after_the_naive_way(command: Callable[[Attempt], str]) -> Cheat:
    async def cheat(attempt: Attempt) -> None:
        await attempt.naive()
        await attempt.bash(command(attempt))

    return cheat


def every_number(change: Callable[[float], object]) -> Cheat:
    def changed(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: changed(each) for key, each in value.items()}
        return change(value) if isinstance(value, int | float) else value

    return forged(changed)


def every_table(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Cheat:
    return forged(lambda answer: {k: change(v) if isinstance(v, dict) else v for k, v in answer.items()})


def in_every_form(key: str) -> list[str]:
    """A key as some house might want it."""
    year, _, rest = key.partition("-")
    month, _, day = rest.partition("-")
    return [key, key.zfill(3), key.zfill(4), f"A-{key}", f"K4-{key}", f"{day}.{month}.{year}", key.replace("-", "")]


async def rules_of_other_places(attempt: Attempt) -> None:
    """The rule of each other place in turn: what a library full of wrong skills would do."""
    mine, instance = attempt.subtask.site, attempt.subtask.instance
    kinds = set(mine.family.kinds(mine.site_config))
    for site in attempt.suite.sites(split="train", world=0):
        if site.drawn.type in kinds and site.drawn.type != mine.drawn.type:
            await play(mine.family.solve(instance, site.drawn), attempt.task, attempt.sandbox)


async def answer_changes_while_it_is_read(attempt: Attempt) -> None:
    await attempt.naive()
    await attempt.bash(
        "cp answer.json one; (while :; do cp one two; mv -f two answer.json; ln -sf one answer.json; done) "
        "> /dev/null 2>&1 & disown"
    )


async def inputs_are_put_back(attempt: Attempt) -> None:
    """Each input's copy stands in its place by a link, with the same bytes."""
    await attempt.naive()
    for source in attempt.inputs:
        await attempt.bash(f"mv {source} {source}.kept && ln -s $PWD/{source}.kept {source}")
    await attempt.bash("true")


OWN: Mapping[str, Cheat] = {
    "numbers_are_texts": every_number(str),
    "numbers_are_lists": every_number(lambda number: [number, -number, number / 2]),
    "numbers_are_ranges": every_number(lambda number: {"min": -1e9, "max": 1e9, "value": number}),
    "numbers_are_not": every_number(lambda _: float("nan")),
    "numbers_are_endless": every_number(lambda _: float("inf")),
    "numbers_are_truths": every_number(lambda _: True),
    "numbers_are_nothing": every_number(lambda _: None),
    "numbers_have_no_end": forged(lambda answer: '{"%s": %s}' % (next(iter(answer)), "9" * 5000)),  # noqa: UP031
    "keys_in_every_form": every_table(lambda table: {form: v for k, v in table.items() for form in in_every_form(k)}),
    "tables_are_empty": every_table(lambda _: {}),
    "tables_are_vast": every_table(lambda table: {**table, **{str(n): n for n in range(5000)}}),
    "tables_lack_a_row": every_table(lambda table: dict(list(table.items())[1:])),
    "figures_twice": forged(lambda answer: json.dumps(answer)[:-1] + ", " + json.dumps(answer)[1:]),
    "figures_in_a_list": forged(lambda answer: [answer, answer]),
    "figures_one_deeper": forged(lambda answer: {"answer": answer, "result": answer}),
    "figures_of_any_name": forged(lambda answer: dict.fromkeys(("total", "days", "visits", "means", "units"), 0)),
    "judged_by_itself": forged(lambda answer: {**answer, "criteria": {"correct": 1.0}, "score": 1.0, "ruled": False}),
    "text_around_it": forged(lambda answer: f"The answer:\n```json\n{json.dumps(answer)}\n```\n"),
    "two_documents": forged(lambda answer: f"{json.dumps(answer)}\n{json.dumps(answer)}\n"),
    "another_encoding": forged(lambda answer: json.dumps(answer).encode("utf-16")),
    "bytes_of_none": forged(lambda answer: b"\xff\xfe\x00" + json.dumps(answer).encode()),
    "answer_of_another_task": play_another_task,
    "rules_of_other_places": rules_of_other_places,
    "answer_changes_while_it_is_read": answer_changes_while_it_is_read,
    "inputs_are_put_back_as_links": inputs_are_put_back,
    "inputs_end_otherwise": after_the_naive_way(lambda a: f"sed -i 's/$/\\r/' {' '.join(a.inputs)}"),
    "inputs_are_shorter": after_the_naive_way(lambda a: f"sed -i '$d' {' '.join(a.inputs)}"),
    "answer_under_other_names": after_the_naive_way(
        lambda a: "for n in ANSWER.json answer.JSON answer answer.json.bak; do cp answer.json $n; done; rm answer.json"
    ),
}


@pytest.mark.parametrize("family", FAMILIES)
async def test_who_knows_the_rule_scores_by_the_same_road(open_sandbox: OpenSandbox, family: str) -> None:
    suite = suite_of(family)
    task = ruled_task(suite)

    async def oracle(attempt: Attempt) -> None:
        await play(attempt.suite.oracle(attempt.task), attempt.task, attempt.sandbox)

    assert await score(suite, task, oracle, open_sandbox) == 1.0


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("cheat", [*GENERIC, *OWN])
async def test_no_cheat_scores(open_sandbox: OpenSandbox, family: str, cheat: str) -> None:
    suite = suite_of(family)
    assert await score(suite, ruled_task(suite), {**GENERIC, **OWN}[cheat], open_sandbox) == 0.0


@pytest.mark.parametrize("family", FAMILIES)
async def test_no_claim_scores(open_sandbox: OpenSandbox, family: str) -> None:
    suite = suite_of(family)
    for claim in CLAIMS[2:]:
        assert await score(suite, ruled_task(suite), naive_way, open_sandbox, claim) == 0.0


@pytest.mark.parametrize("family", FAMILIES)
async def test_the_right_figures_with_a_forged_input_score_nothing(open_sandbox: OpenSandbox, family: str) -> None:
    """Every input counts, the note on the columns too."""
    suite = suite_of(family)
    task = ruled_task(suite)
    for source in subtasks_of(task.truth)[0].instance.inputs:

        async def cheat(attempt: Attempt, source: str = source) -> None:
            await play(attempt.suite.oracle(attempt.task), attempt.task, attempt.sandbox)
            await attempt.bash(f"printf ' ' >> {source}")

        assert await score(suite, task, cheat, open_sandbox) == 0.0
