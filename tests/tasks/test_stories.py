"""Stories: what they ask for, and what each piece that is right or wrong earns."""

from collections.abc import Callable

import pytest

from hermes_lab.protocols import Sandbox
from hermes_lab.rollout import setup_workspace
from hermes_lab.tasks.family import Move
from hermes_lab.tasks.pieces import Piece, pieces_of
from hermes_lab.tasks.play import play
from hermes_lab.tasks.registry import load_family, load_story, stories
from hermes_lab.tasks.stories import StorySuite
from hermes_lab.tasks.worlds import SPLITS, WorldSpec
from hermes_lab.types import Task, Verdict

OpenSandbox = Callable[[], Sandbox]
CHOICES = ("at least", "any", "or more", "no fewer than")
"""How people say that it does not matter which."""


def suite_of(story: str) -> StorySuite:
    told = load_story(story)
    return StorySuite(story, (told,), tuple(map(load_family, told.families)), WorldSpec())


def task_of(suite: StorySuite) -> tuple[Task, Piece]:
    """A task, and a piece of it where a rule holds."""
    tasks = suite.load(split="train", count=20, seed=0, world=0)
    return next((task, piece) for task in tasks for piece in pieces_of(task.truth) if piece.place.rule)


def moves(task: Task, *wrong: Piece) -> list[Move]:
    """Those of somebody who misses the rules of the pieces that are `wrong`, and knows all others."""
    return [
        move for piece in pieces_of(task.truth) for move in piece.moves(None if piece in wrong else piece.place.rule)
    ]


async def judged(suite: StorySuite, task: Task, made: list[Move], open_sandbox: OpenSandbox) -> Verdict:
    async with open_sandbox() as sandbox:
        await setup_workspace(task, sandbox)
        await play(made, task, sandbox)
        return await suite.verify(task, sandbox, "Done.")


@pytest.mark.parametrize("story", stories())
@pytest.mark.parametrize("split", SPLITS)
def test_a_task_has_a_piece_of_each_family_in_a_folder_of_its_own(story: str, split: str) -> None:
    suite = suite_of(story)
    for task in suite.load(split=split, count=20, seed=0, world=0):
        pieces = pieces_of(task.truth)
        assert tuple(piece.place.family.name for piece in pieces) == suite.stories[0].families
        folders = [piece.folder for piece in pieces]
        assert all(folders)
        assert len(set(folders)) == len(pieces)
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
    verdict = await judged(suite, task, moves(task, wrong), open_sandbox)
    rule = wrong.place.rule
    assert rule is not None
    assert (verdict.score, verdict.success) == (0.75, True)
    assert all(name.startswith(f"{wrong.folder}.") for name in verdict.reasons)
    assert rule.recipe in verdict.feedback
    assert "\n" not in verdict.feedback
    assert not any(
        piece.place.rule.told_in(verdict.feedback)
        for piece in pieces_of(task.truth)
        if piece.place.rule and piece is not wrong
    )


@pytest.mark.anyio
async def test_the_score_is_the_share_of_right_pieces(open_sandbox: OpenSandbox) -> None:
    suite = suite_of("release")
    task, _ = task_of(suite)
    pieces = pieces_of(task.truth)
    for right, success in ((0, False), (1, False), (2, False), (3, True), (4, True)):
        made = [move for piece in pieces[:right] for move in piece.moves(piece.place.rule)]
        verdict = await judged(suite, task, made, open_sandbox)
        assert (verdict.score, verdict.success) == (right / 4, success)
        assert bool(verdict.feedback) == (right < 4)
