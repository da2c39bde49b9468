"""Checks a suite that has no right and naive solutions: its ids, and that it loads and rejects the same each time."""

from dataclasses import dataclass

import anyio

from hermes_lab.protocols import Suite
from hermes_lab.returned import load_tasks
from hermes_lab.suites import SessionSuite
from hermes_lab.tasks.check import Tell, problems_of
from hermes_lab.tasks.learnable import learning_notes
from hermes_lab.tasks.proof import AT_ONCE, OpenSandbox, prove_rejection
from hermes_lab.types import Task


@dataclass(frozen=True)
class UnprovenReport:
    """The result for one split. `played` is False if the tasks have sessions, which only an episode opens."""

    split: str
    tasks: int
    played: bool
    failures: tuple[str, ...]
    notes: tuple[str, ...]


def missing_solutions(suite: Suite) -> tuple[str, ...]:
    """Those of the methods `oracle` and `naive` that a suite does not have."""
    return tuple(name for name in ("oracle", "naive") if not hasattr(suite, name))


async def check_unproven(
    suite: Suite, *, split: str, count: int, seed: int, world: int, open_sandbox: OpenSandbox, tell: Tell
) -> UnprovenReport:
    """Does nothing on every task, two at a time. Raises `InfraError` if a sandbox fails."""

    def draw(number: int) -> list[Task]:
        return load_tasks(suite, split=split, count=count, seed=seed, world=number, fewer=True)

    tasks = draw(world)
    failures: dict[int, tuple[str, ...]] = {}
    told: list[bool] = []
    slots = anyio.CapacityLimiter(AT_ONCE)

    async def one(number: int, task: Task) -> None:
        async with slots:
            failures[number], heard = await prove_rejection(suite, task, open_sandbox)
        told.append(heard)
        tell(len(failures), len(tasks))

    played = not isinstance(suite, SessionSuite)
    async with anyio.create_task_group() as group:
        for number, task in enumerate(tasks if played else ()):
            group.start_soon(one, number, task)
    found = [f"{tasks[n].id}: {failure}" for n in sorted(failures) for failure in failures[n]]
    notes = learning_notes(tasks, wanted=count, feedback=any(told) or not played, draw=draw)
    return UnprovenReport(split, len(tasks), played, (*problems_of(tasks, draw(world)), *found), tuple(notes))
