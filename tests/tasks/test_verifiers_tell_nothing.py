"""What a judge runs in a sandbox is seen by what lies there: so it must be the same whatever rule holds."""

import re

import pytest

from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.config.schema import SuiteConfig
from hermes_lab.protocols import ExecResult, Sandbox
from hermes_lab.rollout import setup_workspace
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Rule, draw_rule
from hermes_lab.tasks.play import opener, play
from hermes_lab.tasks.registry import domains, load_suite, served
from hermes_lab.tasks.subtasks import subtasks_of
from hermes_lab.tasks.suite import WorldSuite
from hermes_lab.tasks.worlds import Site
from hermes_lab.types import Task

pytestmark = pytest.mark.anyio
FAMILIES = [*(family for families in domains().values() for family in families), *served()]


class Recorded:
    """A sandbox's workspace that keeps what is run in it; names that are drawn anew every time are masked."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self.ran: list[tuple[object, ...]] = []

    async def read(self, path: str, limit: int = 10_000_000) -> bytes:
        return await self._sandbox.read(path, limit)

    async def write(self, path: str, data: bytes) -> None:
        raise AssertionError("a judge changes nothing")

    async def exec(self, command: str, timeout: float = 180.0, workdir: str = "", fresh: bool = False) -> ExecResult:
        self.ran.append((re.sub(r"\b[0-9a-f]{16}\b", "RANDOM", command), timeout, workdir, fresh))
        return await self._sandbox.exec(command, timeout, workdir, fresh)


def beliefs(site: Site) -> list[Rule | None]:
    """None, the drawn rule, and another rule that the place could have had: of another type, or else with other
    literals."""
    kinds = site.family.kinds(site.site_config)
    others = (
        draw_rule(kind, site.family.rules[kind], Draws("tell nothing", number), site.site_config)
        for number in range(50)
        for kind in sorted(kinds, key=lambda kind: kind == site.drawn.type)
    )
    return [None, site.drawn, next(rule for rule in others if rule.instruction != site.drawn.instruction)]


async def commands(suite: WorldSuite, task: Task) -> list[list[tuple[object, ...]]]:
    """What is run under each belief to judge the obvious way."""
    (subtask,) = subtasks_of(task.truth)
    found = []
    async with opener(SandboxConfig(), suite)() as sandbox:
        await setup_workspace(task, sandbox)
        await play(suite.naive(task), task, sandbox, suite)
        for rule in beliefs(subtask.site):
            recorded = Recorded(sandbox)
            await subtask.site.family.judge(subtask.instance, rule, recorded, "Done.")
            found.append(recorded.ran)
    return found


@pytest.mark.parametrize("family", FAMILIES)
async def test_what_a_judge_runs_tells_nothing_of_the_rule(family: str) -> None:
    suite = load_suite(SuiteConfig(name=family))
    assert isinstance(suite, WorldSuite)
    for split in ("train", "heldout"):
        for task in suite.load(split=split, count=3, seed=3, world=3):
            none, drawn, other = await commands(suite, task)
            assert none == drawn == other
