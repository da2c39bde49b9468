"""Stories: what they ask for, and what each piece that is right or wrong earns."""

from collections.abc import Callable

import pytest

from hermes_lab.protocols import Sandbox
from hermes_lab.rollout import setup_workspace
from hermes_lab.tasks.family import Action
from hermes_lab.tasks.play import play
from hermes_lab.tasks.registry import load_family, load_story, stories
from hermes_lab.tasks.stories import StorySuite
from hermes_lab.tasks.subtasks import Subtask, subtasks_of
from hermes_lab.tasks.worlds import SPLITS, WorldSpec
from hermes_lab.types import Task, Verdict

OpenSandbox = Callable[[], Sandbox]
CHOICES = ("at least", "any", "or more", "no fewer than")
"""How people say that it does not matter which."""


def suite_of(story: str) -> StorySuite:
    told = load_story(story)
    return StorySuite(story, (told,), tuple(map(load_family, told.families)), WorldSpec())


def task_of(suite: StorySuite) -> tuple[Task, Subtask]:
    """A task, and a piece of it where a rule holds."""
    tasks = suite.load(split="train", count=20, seed=0, world=0)
    return next((task, subtask) for task in tasks for subtask in subtasks_of(task.truth) if subtask.site.rule)


def solve(task: Task, *wrong: Subtask) -> list[Action]:
    """Those of somebody who misses the rules of the pieces that are `wrong`, and knows all others."""
    return [
        action
        for subtask in subtasks_of(task.truth)
        for action in subtask.solve(None if subtask in wrong else subtask.site.rule)
    ]


async def judged(suite: StorySuite, task: Task, made: list[Action], open_sandbox: OpenSandbox) -> Verdict:
    async with open_sandbox() as sandbox:
        await setup_workspace(task, sandbox)
        await play(made, task, sandbox)
        return await suite.verify(task, sandbox, "Done.")


@pytest.mark.parametrize("story", stories())
@pytest.mark.parametrize("split", SPLITS)
def test_a_task_has_a_piece_of_each_family_in_a_folder_of_its_own(story: str, split: str) -> None:
    suite = suite_of(story)
    for task in suite.load(split=split, count=20, seed=0, world=0):
        subtasks = subtasks_of(task.truth)
        assert tuple(subtask.site.family.name for subtask in subtasks) == suite.stories[0].families
        folders = [subtask.folder for subtask in subtasks]
        assert all(folders)
        assert len(set(folders)) == len(subtasks)
        assert {path.partition("/")[0] for path in task.files} <= set(folders)
        assert all(f"In the folder {folder}: " in task.prompt for folder in folders)


@pytest.mark.parametrize("story", stories())
def test_an_opening_leaves_open_which_piece_may_be_wrong(story: str) -> None:
    for openings in load_story(story).openings.values():
        for opening in openings:
            assert any(
                f"{words} {{needed}}" in opening.lower() or f"{{needed}} {words}" in opening for words in CHOICES
            )


@pytest.mark.anyio
@pytest.mark.parametrize("story", stories())
async def test_one_broken_rule_is_a_success_that_hears_the_rule(story: str, open_sandbox: OpenSandbox) -> None:
    suite = suite_of(story)
    task, wrong = task_of(suite)
    verdict = await judged(suite, task, solve(task, wrong), open_sandbox)
    rule = wrong.site.rule
    assert rule is not None
    assert (verdict.score, verdict.success) == (0.75, True)
    assert all(name.startswith(f"{wrong.folder}.") for name in verdict.reasons)
    assert rule.instruction in verdict.feedback
    assert "\n" not in verdict.feedback
    assert not any(
        subtask.site.rule.stated_in(verdict.feedback)
        for subtask in subtasks_of(task.truth)
        if subtask.site.rule and subtask is not wrong
    )


@pytest.mark.anyio
async def test_the_score_is_the_share_of_right_pieces(open_sandbox: OpenSandbox) -> None:
    suite = suite_of("release")
    task, _ = task_of(suite)
    subtasks = subtasks_of(task.truth)
    for right, success in ((0, False), (1, False), (2, False), (3, True), (4, True)):
        made = [action for subtask in subtasks[:right] for action in subtask.solve(subtask.site.rule)]
        verdict = await judged(suite, task, made, open_sandbox)
        assert (verdict.score, verdict.success) == (right / 4, success)
        assert bool(verdict.feedback) == (right < 4)
