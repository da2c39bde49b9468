"""Checks Harbor tasks in real sandboxes: doing nothing scores 0, and the task's own solution 1."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import anyio

from hermes_lab.errors import InfraError
from hermes_lab.protocols import Sandbox
from hermes_lab.rollout import sandbox_of
from hermes_lab.tasks.adapters.harbor.session import HarborSession
from hermes_lab.tasks.adapters.harbor.suite import HarborSuite
from hermes_lab.types import Task, Verdict


class CheckedTask(NamedTuple):
    """The scores of doing nothing and of the solution; None for one that could not be had, or that there is not."""

    id: str
    noop: float | None
    oracle: float | None
    failures: tuple[str, ...]


async def check_tasks(
    suite: HarborSuite, open_sandbox: Callable[..., Sandbox], tasks: Sequence[Task], at_once: int = 2
) -> list[CheckedTask]:
    """Checks tasks, several at once, and returns them in order."""
    found: dict[str, CheckedTask] = {}
    slots = anyio.CapacityLimiter(at_once)

    async def one(task: Task) -> None:
        async with slots:
            found[task.id] = await check_task(suite, open_sandbox, task)

    async with anyio.create_task_group() as group:
        for task in tasks:
            group.start_soon(one, task)
    return [found[task.id] for task in tasks]


async def check_task(suite: HarborSuite, open_sandbox: Callable[..., Sandbox], task: Task) -> CheckedTask:
    """Checks one task in two sandboxes."""
    failures: list[str] = []
    scores: list[float | None] = []
    solved = suite.has_solution(task.id)
    for what, work, wanted in (("doing nothing", _nothing, 0.0), ("its solution", _solve, 1.0))[: 1 + solved]:
        session = await suite.open_session(task)
        try:
            async with sandbox_of(task, open_sandbox) as sandbox:
                await session.begin(sandbox)
                verdict = await work(session, sandbox)
        except InfraError as error:
            failures.append(str(error).removeprefix(f"{task.id}: "))
            scores.append(None)
            continue
        scores.append(verdict.score)
        if verdict.score != wanted:
            unmet = ", ".join(name for name, value in verdict.criteria.items() if value < 1.0)
            told = f" ({unmet})" if wanted and unmet else ""
            failures.append(f"{what} scores {verdict.score:g}, not {wanted:g}{told}")
    return CheckedTask(task.id, scores[0], scores[1] if solved else None, tuple(failures))


async def _nothing(session: HarborSession, sandbox: Sandbox) -> Verdict:
    return await session.verify(sandbox, None)


async def _solve(session: HarborSession, sandbox: Sandbox) -> Verdict:
    while True:
        await session.solve()
        if await session.next_user_turn("Done.") is None:
            return await session.verify(sandbox, "Done.")
