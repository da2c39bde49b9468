"""The plan of a run: lanes, their rounds, and the tasks of each round. `runners/experiments/experiment.py` plans the
lanes of an experiment."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Any, Literal

import msgspec

from hermes_lab.config.schema import Arm, RunConfig
from hermes_lab.harness.worker import ReviewWhen
from hermes_lab.lane import LEARNING_ARMS, MAIN, lane_key
from hermes_lab.memory.notes import Notes
from hermes_lab.protocols import Suite
from hermes_lab.returned import load_tasks
from hermes_lab.rollout import RolloutSpec
from hermes_lab.skills.library import Library
from hermes_lab.tasks.registry import wrap_suite_errors
from hermes_lab.tasks_version import with_version
from hermes_lab.types import Task

Command = Literal["run", "learn", "uplift"]
"""The kind of a run, as in `run.json`: `learn` is an experiment; `uplift` reruns lanes of one, each without a skill."""


@dataclass(frozen=True)
class Lane:
    """A sequence of rounds that share one growing library, initially `library` and `notes`. Lanes are independent and
    run in parallel.

    `known`: an oracle's library in each world of the lane, used instead of `library`. `heldout`: the held-out tasks of
    each world. They run at each of the `checks`: before the round with that number; the number of rounds means after
    the last one. `label` is that of its knowledge, where an environment chose it.
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
    label: str = ""

    @property
    def learns(self) -> bool:
        """Whether its library grows."""
        return self.arm in LEARNING_ARMS

    @property
    def steps(self) -> range:
        """The rounds, plus one step after the last one."""
        return range(len(self.rounds) + 1)

    def jobs(self, step: int) -> list[RolloutSpec]:
        """All rollouts that use the snapshot at the start of a round: training and held-out ones."""
        return [*self.training_jobs(step), *self.eval_jobs(step)]

    def training_jobs(self, step: int) -> Iterator[RolloutSpec]:
        """The training rollouts of a round, in merge order."""
        review: ReviewWhen = "due" if self.learns else "never"
        for place, task in enumerate(self.rounds[step] if step < len(self.rounds) else ()):
            for sample in range(self.samples):
                yield RolloutSpec(
                    task, self.name, step, sample, self._learnt(step), place, review, "learn", self.block(step)
                )

    def eval_jobs(self, step: int) -> Iterator[RolloutSpec]:
        """The held-out rollouts of a round, if it has a check. The lane does not learn from them."""
        if step not in self.checks:
            return
        tasks = ((block, task) for block, tasks in enumerate(self.heldout) for task in tasks)
        for place, (block, task) in enumerate(tasks):
            yield RolloutSpec(task, self.name, step, 0, self._learnt(step), place, "never", "heldout", block)

    def block(self, step: int) -> int:
        """The index of the world that a round is in; after the last round, the last one."""
        return min(step * self.blocks // max(len(self.rounds), 1), self.blocks - 1)

    def _learnt(self, step: int) -> int:
        return sum(map(len, self.rounds[:step]))

    @property
    def wanted(self) -> int:
        """Episodes of the whole lane."""
        return self.samples * self._learnt(len(self.rounds)) + self.measured

    @property
    def measured(self) -> int:
        """Held-out episodes of the whole lane."""
        return len(self.checks) * sum(map(len, self.heldout))


def plan_run(config: RunConfig, suite: Suite, library: Library) -> list[Lane]:
    """Plans `run`: one lane with one round and a fixed `library`."""
    wanted = config.suite
    with wrap_suite_errors(suite):
        tasks = load_tasks(suite, split=wanted.split, count=wanted.count, seed=wanted.seed, world=wanted.world)
    return [Lane(MAIN, "frozen", library, config.run.samples, [tasks])]


def tasks_digest(lanes: Sequence[Lane]) -> str:
    """sha256 over all tasks in order, so that a resume with different data is rejected.

    Objects of our own classes in `Task.truth` are left out: their fields may change between versions, and tests pin the
    tasks that they generate. A digest that leaves any out has a version (`hermes_lab.tasks_version`).
    """
    digest, known, plain = hashlib.sha256(), dict[int, bytes](), _Plain()
    for lane in lanes:
        for task in (task for tasks in (*lane.rounds, *lane.heldout) for task in tasks):
            found = known.get(id(task)) or hashlib.sha256(msgspec.json.encode(plain(task))).digest()
            if len(lanes) > 1:  # all arms share the same task objects
                known[id(task)] = found
            digest.update(lane.name.encode() + found)
    return with_version(digest.hexdigest()) if plain.left_out else digest.hexdigest()


def tasks_of_worlds(lanes: Sequence[Lane], worlds: int) -> str:
    """`tasks_digest` of the lanes of the first worlds of an experiment."""
    return tasks_digest([lane for lane in lanes if (place := lane_key(lane.name)) and place.world < worlds])


class _Plain:
    """Converts any value in `Task.truth` to plain data in a canonical order. Other objects become their type's name."""

    def __init__(self) -> None:
        self.left_out = False

    def __call__(self, value: Any) -> Any:
        """Converts one value."""
        if value is None or isinstance(value, str | bytes | int | float):
            return value
        if isinstance(value, list | tuple):
            return [self(each) for each in value]
        if isinstance(value, Mapping):
            return sorted(((self(key), self(each)) for key, each in value.items()), key=lambda pair: f"{pair[0]!r}, ")
        if isinstance(value, set | frozenset):
            return sorted(map(self, value), key=repr)
        name = type(value).__qualname__
        if isinstance(value, msgspec.Struct):
            given = msgspec.structs.asdict(value)
            if isinstance(value, Task) and value.root is None:  # a field that is younger than runs to be resumed
                del given["root"]
            return [name, self(given)]
        if type(value).__module__.startswith("hermes_lab."):
            self.left_out = True
            return ""
        if is_dataclass(value):
            return [name, *(self(getattr(value, field.name)) for field in fields(value))]
        return [name, str(value)] if isinstance(value, Decimal | date | Enum) else name
