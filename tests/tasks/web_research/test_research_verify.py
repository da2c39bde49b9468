"""What the judge of research takes and what it sends back, in a real workspace."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from hermes_lab.protocols import Sandbox
from hermes_lab.tasks.registry import load_family
from hermes_lab.tasks.subtasks import subtasks_of
from hermes_lab.tasks.suite import WorldSuite
from hermes_lab.tasks.worlds import WorldSpec
from hermes_lab.types import Task, Verdict

pytestmark = pytest.mark.anyio
OpenSandbox = Callable[[], Sandbox]


def task_of(family: str, kind: str, split: str = "heldout") -> tuple[WorldSuite, Task, dict[str, Any]]:
    """A task of a rule type, "" for none, with the right answer."""
    suite = WorldSuite(family, (load_family(family),), WorldSpec())
    for world in range(100):
        for task in suite.load(split=split, count=10, seed=0, world=world):
            if task.metadata["rule_type"] == kind:
                return suite, task, json.loads(suite.oracle(task)[-1].arguments["content"])
    raise LookupError(kind)


async def judged(open_sandbox: OpenSandbox, suite: WorldSuite, task: Task, *answers: object) -> list[Verdict]:
    verdicts = []
    async with open_sandbox() as sandbox:
        for answer in answers:
            await sandbox.write("answer.json", json.dumps(answer).encode())
            verdicts.append(await suite.verify(task, sandbox, None))
    return verdicts


async def test_a_plain_answer_is_taken_in_any_order_and_with_a_part_of_the_line(open_sandbox: OpenSandbox) -> None:
    suite, task, right = task_of("registers", "")
    turned = {**right, "sources": right["sources"][::-1]}
    shorter = {**right, "sources": [{**each, "quote": each["quote"][:-3]} for each in right["sources"]]}
    longer = {**right, "value": f"{right['value']}.0"}
    for verdict in await judged(open_sandbox, suite, task, right, turned, shorter, longer):
        assert (verdict.score, verdict.feedback) == (1.0, "")


async def test_zeros_in_front_are_wrong_where_nobody_asked_for_them(open_sandbox: OpenSandbox) -> None:
    suite, task, right = task_of("registers", "")
    (verdict,) = await judged(open_sandbox, suite, task, {**right, "value": f"00{right['value']}"})
    assert (verdict.criteria["value"], verdict.score) == (0.0, 0.0)


async def test_a_rejection_names_what_is_open_and_else_tells_the_rule_but_never_the_answer(
    open_sandbox: OpenSandbox,
) -> None:
    suite, task, right = task_of("notices", "newest_by")
    obvious = json.loads(suite.naive(task)[-1].arguments["content"])
    forged = {**obvious, "sources": [{**obvious["sources"][0], "quote": "The fee is one crown."}]}
    shapeless = {"value": 3}
    told, quote, schema = await judged(open_sandbox, suite, task, obvious, forged, shapeless)
    rule = subtasks_of(task.truth)[0].site.drawn
    assert rule.instruction in told.feedback
    assert right["value"] not in told.feedback
    assert right["sources"][0]["url"] not in told.feedback
    assert "a quote does not occur on the page" in quote.feedback
    assert rule.instruction not in quote.feedback + schema.feedback
    assert "does not have the requested form" in schema.feedback


@pytest.mark.parametrize(
    ("family", "kind"),
    [("notices", "dated"), ("notices", "marks"), ("errata", "fragment"), ("registers", "padded"), ("aliases", "cited")],
)
async def test_a_house_form_is_wanted_to_the_letter_and_the_plain_one_fails_by_the_rule_alone(
    open_sandbox: OpenSandbox, family: str, kind: str
) -> None:
    suite, task, right = task_of(family, kind)
    obvious = json.loads(suite.naive(task)[-1].arguments["content"])
    taken, refused = await judged(open_sandbox, suite, task, right, obvious)
    assert taken.success
    assert not refused.success
    open_criteria = {name: score for name, score in refused.criteria.items() if name not in ("value", "sources")}
    assert set(open_criteria.values()) == {1.0}


@pytest.mark.parametrize(
    "content", [b"", b"[]", b'{"value": "1"', b"\xff\xfe", b'{"value": "1", "value": "2"}', b"[" * 40_000]
)
async def test_what_is_no_answer_is_judged_as_missing(open_sandbox: OpenSandbox, content: bytes) -> None:
    suite, task, _ = task_of("aliases", "")
    async with open_sandbox() as sandbox:
        await sandbox.write("answer.json", content)
        verdict = await suite.verify(task, sandbox, "Done.")
    assert verdict.score == 0.0
    assert verdict.criteria["value"] == verdict.criteria["sources"] == verdict.criteria["schema"] == 0.0


async def test_a_page_that_is_gone_is_no_source(open_sandbox: OpenSandbox) -> None:
    suite, task, right = task_of("notices", "")
    gone = next(page for page in task.pages if page.status == 410)
    cited = {**right, "sources": [{"url": gone.url, "quote": gone.text.strip()}]}
    (verdict,) = await judged(open_sandbox, suite, task, cited)
    assert verdict.criteria["quotes"] == 0.0
