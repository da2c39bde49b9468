"""What somebody earns who believes one thing of a place where another holds."""

import re
from collections.abc import Callable
from typing import Any

from hermes_lab.errors import ToolError
from hermes_lab.protocols import ExecResult, Sandbox, Workspace
from hermes_lab.rollout import setup_workspace
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Criterion, Entity, Family, Rule, TaskInstance, draw_rule
from hermes_lab.tasks.names import NAMES
from hermes_lab.tasks.play import play
from hermes_lab.types import Task

OpenSandbox = Callable[[], Sandbox]
AnyFamily = Family[Any, Any]


def draw(family: AnyFamily, split: str, key: object, wording: str = "varied") -> tuple[TaskInstance, list[Rule | None]]:
    """A scene, and every type of rule that might hold there; None: no rule does."""
    draws = Draws("test", family.name, split, key)
    name = draws.choice(NAMES[split])
    entity = Entity(name.word, name.about, split, wording)
    site_config = family.site_config(entity, "", draws)
    rules = [draw_rule(type_, kind, draws, site_config) for type_, kind in family.rules.items()]
    return family.instance(entity, site_config, draws), [None, *rules]


def task_of(instance: TaskInstance) -> Task:
    return Task(id="t", suite="s", prompt=instance.request, files=dict(instance.files), setup=instance.setup)


def solved(criteria: object) -> bool:
    return all(each.score == 1.0 for each in criteria)  # type: ignore[attr-defined]


async def judged(
    family: AnyFamily, instance: TaskInstance, rule: Rule | None, open_sandbox: OpenSandbox, *commands: str
) -> dict[str, Criterion]:
    """The criteria after the right moves for `rule` and then `commands`."""
    async with open_sandbox() as sandbox:
        await setup_workspace(task_of(instance), sandbox)
        await play(family.solve(instance, rule), task_of(instance), sandbox)
        for command in commands:
            await sandbox.exec(command)
        return {each.name: each for each in await family.judge(instance, rule, sandbox, "Done.")}


class Remembered:
    """A workspace that stands still: what was looked at once is not looked at again."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._read: dict[tuple[str, int], bytes | ToolError] = {}
        self._told: dict[str, ExecResult] = {}

    async def read(self, path: str, limit: int = 10_000_000) -> bytes:
        if (path, limit) not in self._read:
            try:
                self._read[path, limit] = await self._workspace.read(path, limit)
            except ToolError as error:
                self._read[path, limit] = error
        found = self._read[path, limit]
        if isinstance(found, ToolError):
            raise found
        return found

    async def write(self, path: str, data: bytes) -> None:
        raise AssertionError("a judge changes nothing")

    async def exec(self, command: str, timeout: float = 180.0, workdir: str = "", fresh: bool = False) -> ExecResult:
        key = re.sub(r"/tmp/\.\w+", "", command)  # a folder of its own every time
        if key not in self._told:
            assert fresh
            self._told[key] = await self._workspace.exec(command, timeout, workdir, fresh)
        return self._told[key]


async def confused(family: AnyFamily, split: str, key: object, open_sandbox: OpenSandbox) -> list[str]:
    """Every pair of a belief and a truth that comes out other than it should: a belief is right where it is true and
    nowhere else, also on top of what the beliefs before it left."""
    instance, rules = draw(family, split, key)
    names = [rule.type if rule else "none" for rule in rules]
    wrong = []
    async with open_sandbox() as sandbox:
        await setup_workspace(task_of(instance), sandbox)
        for believed, belief in zip(rules, names, strict=True):
            for result in await play(family.solve(instance, believed), task_of(instance), sandbox):
                if not result.ok or ('"exit_code": ' in result.content and '"exit_code": 0' not in result.content):
                    wrong.append(f"{belief}: {result.content}")
            seen = Remembered(sandbox)
            for true, truth in zip(rules, names, strict=True):
                criteria = await family.judge(instance, true, seen, None)
                if solved(criteria) != (believed is true):
                    wrong.append(f"believed {belief}, true {truth}: {[c.name for c in criteria if c.score < 1]}")
                if any(each.score < 1 and not each.ruled for each in criteria):
                    wrong.append(f"believed {belief}, true {truth}: {[c.reason for c in criteria if not c.ruled]}")
    return wrong
