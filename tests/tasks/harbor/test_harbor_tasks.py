"""200 Harbor tasks of many shapes, in real sandboxes."""

from collections import Counter
from functools import partial
from pathlib import Path

import anyio
import pytest
from harbor_shapes import ERRORED, write_all, write_task

from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.rollout import sandbox_of
from hermes_lab.sandbox import open_sandbox
from hermes_lab.tasks.adapters.harbor.check import CheckedTask, check_tasks
from hermes_lab.tasks.adapters.harbor.suite import HarborSuite
from hermes_lab.types import Task

CONFIG = SandboxConfig()
Checked = dict[str, CheckedTask]


def _suite(folder: Path) -> HarborSuite:
    suite = HarborSuite(folder, CONFIG)
    assert suite.problems() == []
    return suite


async def _play(suite: HarborSuite) -> dict[str, tuple[float, float]]:
    """The scores of doing nothing and then of the solution, in one sandbox for each task."""
    found: dict[str, tuple[float, float]] = {}
    slots = anyio.CapacityLimiter(4)

    async def one(task: Task) -> None:
        session = await suite.open_session(task)
        async with slots, sandbox_of(task, partial(open_sandbox, CONFIG)) as sandbox:
            await session.begin(sandbox)
            nothing = await session.verify(sandbox, None)
            await session.solve()
            while await session.next_user_turn("Done."):
                await session.solve()
            found[task.id] = (nothing.score, (await session.verify(sandbox, "Done.")).score)

    async with anyio.create_task_group() as group:
        for task in suite.tasks():
            group.start_soon(one, task)
    return found


def test_all_are_laid_out_doing_nothing_scores_0_and_solutions_1(tmp_path: Path) -> None:
    names = write_all(tmp_path)
    played = anyio.run(_play, _suite(tmp_path))
    assert sorted(played) == sorted(names)
    assert {name: scores for name, scores in played.items() if scores != (0.0, 1.0)} == {}
    assert (len(names), len(Counter(name.partition("-")[0] for name in names))) == (200, 13)


@pytest.fixture(scope="module")
def errored(tmp_path_factory: pytest.TempPathFactory) -> Checked:
    folder = tmp_path_factory.mktemp("errored")
    for name, (test, files, _) in ERRORED.items():
        write_task(folder / name, test=test, files=files, solution="")
    suite = _suite(folder)
    found = anyio.run(check_tasks, suite, partial(open_sandbox, CONFIG), suite.tasks(), 4)
    return {each.id: each for each in found}


@pytest.mark.parametrize("name", ERRORED)
def test_a_test_that_says_nothing_about_the_agent_is_errored_and_never_0(errored: Checked, name: str) -> None:
    each = errored[name]
    assert each.noop is None
    assert each.failures[0].startswith("tests/test.sh: ")
    assert ERRORED[name][2] in each.failures[0]
    assert len(each.failures[0]) < 500
