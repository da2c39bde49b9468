"""What prompts, demonstrations and skills tell of code and of machines."""

import json
import re
from collections.abc import Callable

import pytest

from hermes_lab.config.schema import SkillsConfig
from hermes_lab.protocols import Sandbox
from hermes_lab.rollout import setup_workspace
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.learning.review_policy import review_gate
from hermes_lab.skills.library import Library
from hermes_lab.tasks.family import Action, sentence
from hermes_lab.tasks.play import play
from hermes_lab.tasks.registry import load_family
from hermes_lab.tasks.subtasks import Subtask, subtasks_of
from hermes_lab.tasks.suite import WorldSuite
from hermes_lab.tasks.worlds import SPLITS, WorldSpec
from hermes_lab.types import SkillEdit

OpenSandbox = Callable[[], Sandbox]
FAMILIES = ("plugins", "repair", "stale_build", "test_order", "backups", "dropins", "rotation", "services")


def suite_of(family: str) -> WorldSuite:
    return WorldSuite(family, (load_family(family),), WorldSpec())


def test_a_sentence_begins_with_a_capital_or_with_a_name() -> None:
    assert sentence("the log is full") == "The log is full"
    assert sentence("var/log is full", "etc/log", "var/log") == "var/log is full"
    assert sentence("the log is full", "var/log") == "The log is full"


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("split", SPLITS)
def test_files_are_named_in_their_own_case(family: str, split: str) -> None:
    for world in range(10):
        for task in suite_of(family).load(split=split, count=10, seed=0, world=world):
            known = {*task.files, *subtasks_of(task.truth)[0].instance.outputs}
            capital = {path[0].upper() + path[1:] for path in known} - known
            assert not [path for path in capital if path in task.prompt]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("split", SPLITS)
def test_no_skill_is_taken_for_that_of_another_place(family: str, split: str) -> None:
    gate = review_gate(SkillsConfig())
    for world in range(6):
        skills = suite_of(family).known_skills(split=split, world=world).skills
        for name, skill in skills.items():
            others = Library(other for other in skills.values() if other.name != name)
            new = SkillEdit("create", name, skill.description, skill_format.body(skill))
            assert gate(others, new) == new


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("split", SPLITS)
def test_a_skill_names_units_and_files_in_their_own_case(family: str, split: str) -> None:
    suite = suite_of(family)
    for world in range(10):
        for site in suite.sites(split=split, world=world):
            told = site.family.skill_body(site.entity, site.site_config, site.drawn)
            names = [text for _, text in site.drawn.literals if isinstance(text, str) and re.search(r"\w[.-]\w", text)]
            assert all(text in told for text in names if " " not in text)
            assert not [text for text in names if text[0].islower() and told.startswith(text[0].upper() + text[1:])]


def test_a_skill_shows_how_a_reset_differs_from_the_obvious_one() -> None:
    suite = suite_of("test_order")
    for task in suite.load(split="heldout", count=30, seed=0, world=0):
        (subtask,) = subtasks_of(task.truth)
        site, instance = subtask.site, subtask.instance
        plain, right = (subtask.solve(rule)[0].arguments["content"].splitlines() for rule in (None, site.drawn))
        told = site.family.skill_body(site.entity, site.site_config, site.drawn)
        (diff,) = re.findall(r"```diff\n(.*?)```", told, re.DOTALL)
        assert f"In {instance.outputs[0]}:" in told
        assert diff
        for line in diff.splitlines():
            assert line[1:] in (right if line[0] == "+" else plain)
        kept = [line for line in plain if f"-{line}" not in diff.splitlines()]
        assert sorted([*kept, *(line[1:] for line in diff.splitlines() if line[0] == "+")]) == sorted(right)


def overwritten(action: Action, subtask: Subtask) -> list[str]:
    """The files of the scene that a move writes anew from nothing but a text of its own."""
    if action.tool == "write_file":
        return [path for path in subtask.instance.files if path == action.arguments["path"]]
    texts = re.findall(r"(\S+) <<'EOF'", str(action.arguments.get("command")))
    return [path for path in subtask.instance.files if path in texts]


@pytest.mark.anyio
@pytest.mark.parametrize("family", FAMILIES)
async def test_who_looks_has_seen_what_is_overwritten(family: str, open_sandbox: OpenSandbox) -> None:
    suite = suite_of(family)
    (task,) = suite.load(split="train", count=1, seed=1, world=1)
    (subtask,) = subtasks_of(task.truth)
    async with open_sandbox() as sandbox:
        await setup_workspace(task, sandbox)
        results = await play(subtask.explore(), task, sandbox)
        told = "\n".join(result.content for result in results)
    assert all(result.ok for result in results)
    written = [
        path
        for rule in (None, subtask.site.drawn)
        for action in subtask.solve(rule)
        for path in overwritten(action, subtask)
    ]
    assert bool(written) == (family not in ("backups", "dropins", "rotation"))
    for path in written:
        lines = [line.strip() for line in subtask.instance.files[path].splitlines() if line.strip()]
        assert all(json.dumps(line)[1:-1] in told for line in lines)
