"""Why an experiment on a suite could not show learning, though each of its tasks is sound."""

from collections.abc import Callable, Iterator, Sequence

from hermes_lab.config.schema import LearningConfig
from hermes_lab.text.counted import counted
from hermes_lab.types import Task

Draw = Callable[[int], list[Task]]
"""The tasks of a world."""


def learning_notes(tasks: Sequence[Task], *, wanted: int, feedback: bool, draw: Draw | None = None) -> Iterator[str]:
    """What an experiment lacks in these `tasks` of one split, of which `wanted` were asked for.

    `feedback`: whether any rejection said why. `draw` gives the tasks of other worlds, if the suite has worlds.
    """
    rounds = LearningConfig().rounds
    unheard = "so the agent never hears why its work was rejected"
    if all(task.attempts < 2 for task in tasks):
        yield (
            "enough for `run`, but an experiment can hardly show learning: no task has a second attempt, "
            f"{unheard}; set attempts to 2 or more, and give feedback"
        )
    elif not feedback:
        yield (
            "enough for `run`, but an experiment can hardly show learning: no rejection has feedback, "
            f"{unheard} and gets no second attempt; give feedback"
        )
    if len(tasks) < min(wanted, rounds):
        yield (
            f"an experiment has {rounds} rounds by default, each with a task of its own, besides held-out tasks; with "
            f"{counted(len(tasks), 'task')}, lower learning.rounds, or add some"
        )
    if draw and _content(draw(1)) == _content(draw(0)):
        yield (
            "worlds 0 and 1 have the same tasks, so more worlds (learning.worlds) only repeat them: let load() draw "
            "them by `world`"
        )
    if len(tasks) > 1 and len({*map(repr, _content(tasks))}) == 1:
        yield f"all {counted(len(tasks), 'task')} are the same: what looks like learning may be the answer of that task"


def _content(tasks: Sequence[Task]) -> list[tuple[object, ...]]:
    """All that makes a task, without its id and number of the world."""
    return [(task.prompt, task.files, task.setup, task.pages, task.triggers, task.truth) for task in tasks]
