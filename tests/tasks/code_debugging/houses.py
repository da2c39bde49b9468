"""Tasks of the domain on which a certain rule holds, and what becomes of a workspace."""

from collections.abc import Callable
from typing import Any

from hermes_lab.protocols import Sandbox
from hermes_lab.rollout import setup_workspace
from hermes_lab.tasks.admission import forced
from hermes_lab.tasks.play import play
from hermes_lab.tasks.registry import load_family
from hermes_lab.tasks.subtasks import subtasks_of
from hermes_lab.tasks.suite import WorldSuite
from hermes_lab.tasks.worlds import WorldSpec
from hermes_lab.types import Task, Verdict

OpenSandbox = Callable[[], Sandbox]


def suite_of(family: str) -> WorldSuite:
    return WorldSuite(family, (load_family(family),), WorldSpec())


def task_of(family: str, type_: str, split: str = "heldout", number: int = 0) -> Task:
    """A task on which a rule of that type holds; the empty type: none."""
    suite = suite_of(family)
    if not type_:
        tasks = suite.load(split=split, count=40, seed=number, world=number)
        return next(task for task in tasks if not task.triggers)
    tries = (forced(suite, suite.families[0], type_, split, world) for world in range(number, number + 20))
    return next(task for task in tries if task is not None)


def scene_of(task: Task) -> Any:
    return subtasks_of(task.truth)[0].instance


def mended_path(task: Task) -> str:
    """The module that is to be mended."""
    instance = scene_of(task)
    return str(instance.plugin.path if hasattr(instance, "plugin") else instance.path)


async def judged(
    open_sandbox: OpenSandbox, task: Task, *, way: str = "oracle", then: str = "", module: str | None = None
) -> Verdict:
    """The verdict after somebody's moves, a command, and the module written as `module`, of the moves' own text over
    `{text}`."""
    suite = suite_of(task.suite)
    async with open_sandbox() as sandbox:
        await setup_workspace(task, sandbox)
        if way:
            await play(getattr(suite, way)(task), task, sandbox)
        if then:
            await sandbox.exec(then)
        if module is not None:
            text = (await sandbox.read(mended_path(task))).decode()
            await sandbox.write(mended_path(task), module.replace("{text}", text).encode())
        return await suite.verify(task, sandbox, None)


def failed(verdict: Verdict) -> set[str]:
    return {name for name, value in verdict.criteria.items() if value < 1.0}
