"""The answers of tasks, and the scan for them: planted ones are found, and what the rules tell is none."""

from functools import partial

import pytest

from hermes_lab.analysis.skill_effects.leaks import Answer, scan, secrets
from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.config.schema import SuiteConfig
from hermes_lab.sandbox import open_sandbox
from hermes_lab.skills.format import parse, render
from hermes_lab.tasks.answers import answer_key
from hermes_lab.tasks.play import opener
from hermes_lab.tasks.registry import domains, load_suite, served
from hermes_lab.tasks.suite import WorldSuite
from hermes_lab.types import Skill, Task

OPEN = partial(open_sandbox, SandboxConfig())


async def answers_of(suite: WorldSuite, tasks: list[Task]) -> list[Answer]:
    keys = [await answer_key(suite, task, opener(SandboxConfig(), suite)) for task in tasks]
    return [
        Answer(task_id=task.id, answer=key.answer, known=key.known)
        for task, key in zip(tasks, keys, strict=True)
        if key is not None
    ]


def planted(secret: str) -> Skill:
    return parse(render("memo", "How it is done", f"The last time it came to:\n\n{secret}\n"))


@pytest.mark.parametrize("domain", [*domains(), *served(), "open_ended"])
async def test_what_oracles_know_is_no_leak_and_a_planted_answer_is_one(domain: str) -> None:
    suite = load_suite(SuiteConfig(name=domain))
    assert isinstance(suite, WorldSuite)
    answers = await answers_of(suite, suite.load(split="heldout", count=5, seed=0, world=0))
    assert len(answers) == 5
    libraries = [suite.known_skills(split=split, world=world) for split in suite.splits for world in range(3)]
    assert scan((skill for each in libraries for skill in each.skills.values()), answers) == []
    own = secrets(answers)
    # What is right there stands in the task and its rule, but for a few backups; house tools and servers write what
    # they are given.
    if domain not in ("system_admin", "house_tools", *served()):
        assert sum(map(bool, own.values())) >= 3
    for task, secret in own.items():
        for one in secret:
            assert [(leak.task_id, one in leak.literals) for leak in scan([planted(one)], answers)] == [(task, True)]


async def test_an_expected_output_is_the_answer_of_a_file_of_tasks(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("suite") / "mine.jsonl"
    path.write_text(
        '{"prompt": "How much is it?", "expected_output": "48213.77"}\n{"prompt": "Do it", "verify": "true"}'
    )
    suite = load_suite(SuiteConfig(path=str(path)))
    first, second = suite.load(split="train", count=0, seed=0, world=0)
    key = await answer_key(suite, first, OPEN)
    assert key == (("48213.77",), ("How much is it?",))
    assert await answer_key(suite, second, OPEN) is None
