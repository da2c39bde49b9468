"""What a run is made of: lanes, their rounds, and the tasks of each round. `runners/experiments/experiment.py` plans
those of an experiment."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Any, Literal

import msgspec

from hermes_lab.config.schema import Arm, RunConfig
from hermes_lab.memory.notes import Notes
from hermes_lab.protocols import Suite
from hermes_lab.rollout import ReviewWhen, RolloutSpec
from hermes_lab.runners.engine.lanes import LEARNING
from hermes_lab.skills.library import Library
from hermes_lab.tasks.registry import wrap_suite_errors
from hermes_lab.types import Task

Command = Literal["run", "learn", "uplift"]
"""The kind of a run, as in `run.json`: `learn` is an experiment; `uplift` reruns lanes of one, each without a skill."""


@dataclass(frozen=True)
class Lane:
    """A sequence of rounds that share one growing library. Lanes are independent of each other and run in parallel.
    It begins with `library` and `notes`.

    `known` has, where the lane goes through several worlds, what an oracle knows in each, in place of `library`.
    `heldout` are the tasks of each of its worlds that are only measured, in each of the `checks`: before that round, or
    at the number of rounds after the last one.
    """

    name: str
    arm: Arm
    library: Library
    samples: int
    rounds: Sequence[Sequence[Task]]
    blocks: int = 1
    weights: int = 0
    heldout: Sequence[Sequence[Task]] = ()
    checks: frozenset[int] = frozenset()
    known: Sequence[Library] = ()
    notes: Notes = field(default_factory=Notes)

    @property
    def learns(self) -> bool:
        """Whether its library grows."""
        return self.arm in LEARNING

    @property
    def steps(self) -> range:
        """The rounds, and the time after the last one."""
        return range(len(self.rounds) + 1)

    def jobs(self, step: int) -> list[RolloutSpec]:
        """All rollouts against the snapshot that a round begins with: those to learn from, and the held-out ones."""
        return [*self.training_jobs(step), *self.eval_jobs(step)]

    def training_jobs(self, step: int) -> Iterator[RolloutSpec]:
        """The rollouts of a round, in the order in which their writes are merged."""
        review: ReviewWhen = "due" if self.learns else "never"
        for place, task in enumerate(self.rounds[step] if step < len(self.rounds) else ()):
            for sample in range(self.samples):
                yield RolloutSpec(
                    task, self.name, step, sample, self._learnt(step), place, review, "learn", self.block(step)
                )

    def eval_jobs(self, step: int) -> Iterator[RolloutSpec]:
        """The held-out rollouts, if the round has a check: nothing is learnt from them."""
        if step not in self.checks:
            return
        tasks = ((block, task) for block, tasks in enumerate(self.heldout) for task in tasks)
        for place, (block, task) in enumerate(tasks):
            yield RolloutSpec(task, self.name, step, 0, self._learnt(step), place, "never", "heldout", block)

    def block(self, step: int) -> int:
        """Which of its worlds a round is in; after the last round, the last one."""
        return min(step * self.blocks // max(len(self.rounds), 1), self.blocks - 1)

    def _learnt(self, step: int) -> int:
        return sum(map(len, self.rounds[:step]))

    @property
    def wanted(self) -> int:
        """Episodes of the whole lane."""
        return self.samples * self._learnt(len(self.rounds)) + self.measured

    @property
    def measured(self) -> int:
        """Those of them that are held out."""
        return len(self.checks) * sum(map(len, self.heldout))


def plan_run(config: RunConfig, suite: Suite, library: Library) -> list[Lane]:
    """`run`: one lane, one round, `library` as it is."""
    wanted = config.suite
    with wrap_suite_errors(suite.name):
        tasks = suite.load(split=wanted.split, count=wanted.count, seed=wanted.seed, world=wanted.world)
    return [Lane("main", "frozen", library, config.run.samples, [tasks])]


def tasks_digest(lanes: Sequence[Lane]) -> str:
    """sha256 over every task in its place: a resume against other data is found out by it."""
    digest, known = hashlib.sha256(), dict[int, bytes]()
    for lane in lanes:
        for task in (task for tasks in (*lane.rounds, *lane.heldout) for task in tasks):
            found = known.get(id(task)) or hashlib.sha256(msgspec.json.encode(_plain(task))).digest()
            if len(lanes) > 1:  # all arms have the same ones
                known[id(task)] = found
            digest.update(lane.name.encode() + found)
    return digest.hexdigest()


def _plain(value: Any) -> Any:
    """The data of anything that a suite keeps as truth, in an order of its own; what is no data stands for its type."""
    if value is None or isinstance(value, str | bytes | int | float):
        return value
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, Mapping):
        return sorted(([_plain(key), _plain(each)] for key, each in value.items()), key=lambda pair: f"{pair[0]!r}, ")
    if isinstance(value, set | frozenset):
        return sorted(map(_plain, value), key=repr)
    name = type(value).__qualname__
    if isinstance(value, msgspec.Struct):
        return [name, _plain(msgspec.structs.asdict(value))]
    if is_dataclass(value):
        return [name, *(_plain(getattr(value, field.name)) for field in fields(value))]
    return [name, str(value)] if isinstance(value, Decimal | date | Enum) else name
