"""What a run is made of: lanes, their rounds, and the tasks of each round."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Any

import msgspec

from hermes_lab.config import Arm, RunConfig
from hermes_lab.errors import ConfigError
from hermes_lab.protocols import Suite
from hermes_lab.rollout import Job, ReviewWhen
from hermes_lab.skills.library import Library
from hermes_lab.types import Task
from runners.lanes import LEARNING, begin
from tasks.registry import blaming


@dataclass(frozen=True)
class Lane:
    """A sequence of rounds that share one growing library. Lanes are independent of each other and run in parallel."""

    name: str
    arm: Arm
    library: Library
    samples: int
    rounds: Sequence[Sequence[Task]]

    @property
    def learns(self) -> bool:
        """Whether its library grows."""
        return self.arm in LEARNING

    def jobs(self, round_: int) -> Iterator[Job]:
        """The rollouts of one round, in the order in which their writes are merged."""
        experience = sum(len(tasks) for tasks in self.rounds[:round_])
        for place, task in enumerate(self.rounds[round_]):
            for sample in range(self.samples):
                review: ReviewWhen = "due" if self.learns else "never"
                yield Job(task, self.name, round_, sample, experience, place, review)

    @property
    def wanted(self) -> int:
        """Episodes of the whole lane."""
        return self.samples * sum(map(len, self.rounds))


def plan_run(config: RunConfig, suite: Suite, library: Library) -> list[Lane]:
    """`run`: one lane, one round, `library` as it is."""
    wanted = config.suite
    with blaming(suite.name):
        tasks = suite.load(split=wanted.split, count=wanted.count, seed=wanted.seed, world=wanted.world)
    return [Lane("main", "frozen", library, config.run.samples, [tasks])]


def plan_learn(config: RunConfig, suite: Suite, library: Library) -> list[Lane]:
    """`learn`: a lane for each arm, replicate and world; those that have skills begin with `library`. All arms of a
    replicate and world get the same tasks in the same order, so that they can be compared task by task."""
    if config.run.samples != 1:
        raise ConfigError("run.samples: `learn` takes 1; for more rollouts raise learning.replicates")
    for field, value in (("count", config.suite.count), ("world", config.suite.world)):
        if value:
            raise ConfigError(f"suite.{field}: `learn` takes its tasks from learning.rounds, round_size and worlds")
    learning = config.learning
    lanes: list[Lane] = []
    for replicate in range(learning.replicates):
        for world in range(learning.worlds):
            with blaming(suite.name):
                tasks = suite.load(
                    split=config.suite.split,
                    count=learning.rounds * learning.round_size,
                    seed=_draw_seed(config.suite.seed, replicate),
                    world=world,
                )
            if world and lanes[-1].rounds[0][0] == tasks[0]:
                raise ConfigError(f"learning.worlds: {suite.name} has no worlds, all have the same tasks; use 1")
            rounds = [tasks[i : i + learning.round_size] for i in range(0, len(tasks), learning.round_size)]
            lanes += [
                Lane(
                    name=f"{arm}-r{replicate}-w{world}",
                    arm=arm,
                    library=begin(arm, library, suite, split=config.suite.split, world=world),
                    samples=1,
                    rounds=rounds,
                )
                for arm in learning.arms
            ]
    return lanes


def tasks_digest(lanes: Sequence[Lane]) -> str:
    """sha256 over every task in its place: a resume against other data is found out by it."""
    digest, known = hashlib.sha256(), dict[int, bytes]()
    for lane in lanes:
        for task in (task for tasks in lane.rounds for task in tasks):
            if id(task) not in known:  # all arms have the same ones
                known[id(task)] = hashlib.sha256(msgspec.json.encode(_plain(task))).digest()
            digest.update(lane.name.encode() + known[id(task)])
    return digest.hexdigest()


def _plain(value: Any) -> Any:
    """The data of anything that a suite keeps as truth, in an order of its own; what is no data stands for its type."""
    if value is None or isinstance(value, str | bytes | int | float):
        return value
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, Mapping):
        return sorted(([_plain(key), _plain(each)] for key, each in value.items()), key=repr)
    if isinstance(value, set | frozenset):
        return sorted(map(_plain, value), key=repr)
    name = type(value).__qualname__
    if isinstance(value, msgspec.Struct):
        return [name, _plain(msgspec.structs.asdict(value))]
    if is_dataclass(value):
        return [name, *(_plain(getattr(value, field.name)) for field in fields(value))]
    return [name, str(value)] if isinstance(value, Decimal | date | Enum) else name


def _draw_seed(seed: int, replicate: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}/{replicate}".encode()).digest()[:4], "big")
