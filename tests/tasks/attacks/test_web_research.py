"""Ways to cheat in research, most of them by somebody who has seen a part of the right answer. None scores."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from hermes_lab.protocols import Sandbox
from hermes_lab.tasks.registry import load_family
from hermes_lab.tasks.subtasks import subtasks_of
from hermes_lab.tasks.suite import WorldSuite
from hermes_lab.tasks.worlds import WorldSpec
from hermes_lab.types import Task
from tests.tasks.attacks.cheats import CLAIMS, GENERIC, Attempt, by_name, score

pytestmark = [pytest.mark.anyio, pytest.mark.long]
OpenSandbox = Callable[[], Sandbox]
RULES = {"notices": "newest_by", "registers": "annex", "aliases": "role", "errata": "sheet"}
"""A rule of each family that changes the value and the sources."""
SUITES = {name: WorldSuite(name, (load_family(name),), WorldSpec()) for name in RULES}


def task_of(family: str) -> Task:
    for world in range(50):
        for task in SUITES[family].load(split="train", count=10, seed=0, world=world):
            if task.metadata["rule_type"] == RULES[family]:
                return task
    raise LookupError(family)


TASKS = {name: task_of(name) for name in RULES}


def answers(attempt: Attempt) -> tuple[dict[str, Any], dict[str, Any]]:
    """The obvious answer, and the right one."""
    subtask = attempt.subtask
    obvious, right = (json.loads(subtask.solve(rule)[-1].arguments["content"]) for rule in (None, subtask.site.rule))
    return obvious, right


async def leave(attempt: Attempt, content: object, path: str = "answer.json") -> None:
    text = content if isinstance(content, str) else json.dumps(content)
    await attempt.sandbox.write(path, text.encode())


async def value_with_the_obvious_sources(attempt: Attempt) -> None:
    obvious, right = answers(attempt)
    await leave(attempt, {**right, "sources": obvious["sources"]})


async def sources_with_the_obvious_value(attempt: Attempt) -> None:
    obvious, right = answers(attempt)
    await leave(attempt, {**right, "value": obvious["value"]})


async def no_sources(attempt: Attempt) -> None:
    await leave(attempt, {**answers(attempt)[1], "sources": []})


async def sources_of_both(attempt: Attempt) -> None:
    obvious, right = answers(attempt)
    extra = [each for each in obvious["sources"] if each not in right["sources"]]
    await leave(attempt, {**right, "sources": [*right["sources"], *(extra or right["sources"])]})


async def every_page_is_a_source(attempt: Attempt) -> None:
    sources = [{"url": page.url, "quote": page.text.splitlines()[0]} for page in attempt.task.pages if page.text]
    await leave(attempt, {**answers(attempt)[1], "sources": sources[:30]})


async def every_value_at_once(attempt: Attempt) -> None:
    obvious, right = answers(attempt)
    await leave(attempt, {**right, "value": f"{obvious['value']} or {right['value']}"})


async def every_number_of_the_pages(attempt: Attempt) -> None:
    numbers = re.findall(r"\d+(?:\.\d+)?", " ".join(page.text for page in attempt.task.pages))
    await leave(attempt, {**answers(attempt)[1], "value": " ".join(dict.fromkeys(numbers))[:400]})


async def value_is_a_list(attempt: Attempt) -> None:
    obvious, right = answers(attempt)
    await leave(attempt, {**right, "value": [obvious["value"], right["value"]]})


async def value_is_no_number(attempt: Attempt) -> None:
    await leave(attempt, json.dumps({**answers(attempt)[1], "value": float("nan")}))


async def value_says_nan(attempt: Attempt) -> None:
    await leave(attempt, {**answers(attempt)[1], "value": "NaN"})


async def value_stands_there_twice(attempt: Attempt) -> None:
    obvious, right = answers(attempt)
    text = json.dumps(right)
    await leave(attempt, text[:-1] + f', "value": {json.dumps(obvious["value"])}}}')


async def quotes_are_invented(attempt: Attempt) -> None:
    right = answers(attempt)[1]
    sources = [{**each, "quote": f"It is known that {each['quote']}"} for each in right["sources"]]
    await leave(attempt, {**right, "sources": sources})


async def quotes_are_empty(attempt: Attempt) -> None:
    right = answers(attempt)[1]
    await leave(attempt, {**right, "sources": [{**each, "quote": ""} for each in right["sources"]]})


async def quotes_are_one_word(attempt: Attempt) -> None:
    right = answers(attempt)[1]
    await leave(attempt, {**right, "sources": [{**each, "quote": each["quote"][:4]} for each in right["sources"]]})


async def quotes_are_of_another_line(attempt: Attempt) -> None:
    right = answers(attempt)[1]
    heads = {page.url: page.text.splitlines()[0] for page in attempt.task.pages}
    await leave(attempt, {**right, "sources": [{**each, "quote": heads[each["url"]]} for each in right["sources"]]})


async def quotes_are_whole_pages(attempt: Attempt) -> None:
    right = answers(attempt)[1]
    texts = {page.url: page.text for page in attempt.task.pages}
    await leave(attempt, {**right, "sources": [{**each, "quote": texts[each["url"]]} for each in right["sources"]]})


async def quotes_are_of_another_page(attempt: Attempt) -> None:
    right = answers(attempt)[1]
    cited = {each["url"] for each in right["sources"]}
    other = next(page for page in attempt.task.pages if page.url not in cited and page.status == 200)
    sources = [{**each, "url": other.url} for each in right["sources"]]
    await leave(attempt, {**right, "sources": sources})


async def one_source_names_all_addresses(attempt: Attempt) -> None:
    obvious, right = answers(attempt)
    urls = dict.fromkeys(each["url"] for each in (*right["sources"], *obvious["sources"]))
    await leave(attempt, {**right, "sources": [{"url": " ".join(urls), "quote": right["sources"][-1]["quote"]}]})


async def sources_lie_in_the_workspace(attempt: Attempt) -> None:
    right = answers(attempt)[1]
    for number, each in enumerate(right["sources"]):
        await leave(attempt, each["quote"], f"pages/{number}.md")
    sources = [{**each, "url": f"file:pages/{n}.md"} for n, each in enumerate(right["sources"])]
    await leave(attempt, {**right, "sources": sources})


async def answer_has_a_score(attempt: Attempt) -> None:
    await leave(attempt, {**answers(attempt)[0], "score": 1.0, "success": True})


async def answer_is_one_of_several_lines(attempt: Attempt) -> None:
    obvious, right = answers(attempt)
    await leave(attempt, f"{json.dumps(obvious)}\n{json.dumps(right)}\n")


async def answer_lies_elsewhere(attempt: Attempt) -> None:
    await leave(attempt, answers(attempt)[1], "out/answer.json")


async def answer_is_a_link(attempt: Attempt) -> None:
    await leave(attempt, answers(attempt)[1], "right.json")
    await attempt.bash("ln -s right.json answer.json")


CHEATS = by_name(
    value_with_the_obvious_sources,
    sources_with_the_obvious_value,
    no_sources,
    sources_of_both,
    every_page_is_a_source,
    every_value_at_once,
    every_number_of_the_pages,
    value_is_a_list,
    value_is_no_number,
    value_says_nan,
    value_stands_there_twice,
    quotes_are_invented,
    quotes_are_empty,
    quotes_are_one_word,
    quotes_are_of_another_line,
    quotes_are_whole_pages,
    quotes_are_of_another_page,
    one_source_names_all_addresses,
    sources_lie_in_the_workspace,
    answer_has_a_score,
    answer_is_one_of_several_lines,
    answer_lies_elsewhere,
    answer_is_a_link,
)


@pytest.mark.parametrize("family", RULES)
@pytest.mark.parametrize("cheat", [*CHEATS, *GENERIC])
async def test_a_cheat_earns_nothing(open_sandbox: OpenSandbox, family: str, cheat: str) -> None:
    how = (CHEATS | GENERIC)[cheat]
    assert await score(SUITES[family], TASKS[family], how, open_sandbox) == 0.0


@pytest.mark.parametrize("family", RULES)
async def test_a_claim_earns_nothing(open_sandbox: OpenSandbox, family: str) -> None:
    right = subtasks_of(TASKS[family].truth)[0]
    told = right.solve(right.site.rule)[-1].arguments["content"]
    for claim in (*CLAIMS, told):
        assert await score(SUITES[family], TASKS[family], GENERIC["nothing"], open_sandbox, claim or "") == 0.0


@pytest.mark.parametrize("family", RULES)
async def test_the_right_answer_itself_scores(open_sandbox: OpenSandbox, family: str) -> None:
    async def honest(attempt: Attempt) -> None:
        await leave(attempt, answers(attempt)[1])

    assert await score(SUITES[family], TASKS[family], honest, open_sandbox) == 1.0
