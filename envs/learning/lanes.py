"""The tasks of learning episodes."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import msgspec

from hermes_lab.config.schema import RunConfig
from hermes_lab.envs.learning.config import ReviewWorth
from hermes_lab.envs.learning.knowledge import emptied
from hermes_lab.errors import ConfigError
from hermes_lab.knowledge import Knowledge
from hermes_lab.lane import LaneKey, lane_name
from hermes_lab.protocols import Suite
from hermes_lab.returned import load_tasks
from hermes_lab.suites import JudgedSuite
from hermes_lab.types import Task

_SPARE = 4
"""How many times as many tasks are drawn, at most, to find different ones."""


@dataclass(frozen=True)
class LearningLane:
    """One learning episode: the agent works on `tasks`, starting from `start`, and its reviews are measured on
    `followups`. In the arm `placebo` everything that it writes is emptied."""

    name: str
    arm: Literal["on", "placebo"]
    tasks: tuple[Task, ...]
    followups: tuple[Task, ...]
    start: Knowledge

    @property
    def world(self) -> int:
        """The world of all its tasks."""
        return self.tasks[0].world


class Draw(NamedTuple):
    """The tasks of `episodes` learning episodes, divided among `worlds` worlds from `first_world` on."""

    split: str
    seed: int
    first_world: int
    worlds: int
    episodes: int


def draw_lanes(suite: Suite, config: RunConfig, worth: ReviewWorth, draw: Draw, start: Knowledge) -> list[LearningLane]:
    """The learning episodes of a draw, which depend on the arguments alone.

    The tasks of one world are all different, and so are their expected outputs. Raises `ConfigError` if a world has too
    few, and for tasks that a model grades: a skill can flatter it.
    """
    arm: Literal["on", "placebo"] = "placebo" if config.learning.arms == ("placebo",) else "on"
    start = emptied(start) if arm == "placebo" else start
    lanes = []
    for place in range(min(draw.worlds, draw.episodes)):
        world = draw.first_world + place
        size = worth.tasks + worth.followups
        episodes = len(range(place, draw.episodes, draw.worlds))
        tasks = _different(suite, draw, world, size * episodes)
        for number in range(episodes):
            own = tasks[number * size : (number + 1) * size]
            name = lane_name(LaneKey(arm, number, world), with_weights=False)
            lanes.append(LearningLane(name, arm, tuple(own[: worth.tasks]), tuple(own[worth.tasks :]), start))
    return lanes


def _different(suite: Suite, draw: Draw, world: int, count: int) -> list[Task]:
    """The first `count` tasks of a world that differ from each other: in their files, setup or pages, or in the prompt
    if they have none of these, and in what they expect to be answered."""
    found: dict[bytes, Task] = {}
    drawn: list[Task] = []
    for wanted in (count, count * _SPARE):
        found, answers = {}, set[str]()
        drawn = _load(suite, draw, world, wanted)
        for task in drawn:
            _refuse_judge(suite, task)
            answer = task.truth.get("expected_output")
            if answer is not None and str(answer) in answers:
                continue
            if found.setdefault(_instance(task), task) is task:
                answers.add(str(answer))
        if len(found) >= count:
            return list(found.values())[:count]
    raise ConfigError(
        f"reviews: {count} different tasks are needed, and world {world} of {suite.name} has {len(found)} among "
        f"{len(drawn)}: neither the files, setup and pages of a task (its prompt if it has none of these) nor its "
        "expected output may be those of another one; lower reviews.followups or reviews.tasks"
    )


def _load(suite: Suite, draw: Draw, world: int, count: int) -> list[Task]:
    """`count` tasks, or all those of a suite that has fewer."""
    try:
        return load_tasks(suite, split=draw.split, count=count, seed=draw.seed, world=world)
    except ConfigError as error:
        try:
            return load_tasks(suite, split=draw.split, count=0, seed=draw.seed, world=world)
        except ConfigError:
            raise error from None


def _instance(task: Task) -> bytes:
    content = (sorted(task.files.items()), task.setup, task.pages)
    return msgspec.json.encode(content if any(content) else task.prompt)


def _refuse_judge(suite: Suite, task: Task) -> None:
    if isinstance(suite, JudgedSuite) and suite.judge_rubric(task):
        raise ConfigError(
            f"suite: {task.id} is graded by a model, which a skill could flatter; learning episodes need tasks that a "
            "verifier judges"
        )
