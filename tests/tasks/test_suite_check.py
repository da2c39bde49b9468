from collections.abc import Callable
from pathlib import Path

import pytest

from hermes_lab.errors import ConfigError
from hermes_lab.protocols import Sandbox, Workspace
from hermes_lab.types import Task, Verdict
from tasks.check import CheckReport, check_suite
from tasks.jsonl import JsonlSuite
from tasks.ledger.suite import LedgerSuite, sum_command

pytestmark = pytest.mark.anyio
OpenSandbox = Callable[[], Sandbox]


async def check(suite: LedgerSuite, open_sandbox: OpenSandbox, count: int = 3) -> CheckReport:
    return await check_suite(suite, split="heldout", count=count, seed=1, world=0, open_sandbox=open_sandbox)


async def test_ledger_proves_itself(open_sandbox: OpenSandbox) -> None:
    report = await check(LedgerSuite(), open_sandbox)
    assert report.failures == ()
    assert len(report.rows) == 3
    assert {row.oracle for row in report.rows} == {1.0}
    assert {row.noop for row in report.rows} == {0.0}
    ruled = [row for row in report.rows if row.triggers]
    assert len(ruled) == 2
    assert report.headroom == 2 / 3


class Lenient(LedgerSuite):
    """Looks at nothing but the bytes behind `answer.json`, wherever they lie."""

    async def verify(self, task: Task, workspace: Workspace, answer: str | None) -> Verdict:
        found = await workspace.exec("cat answer.json")
        right = found.output == f'{{"total": {task.truth["total"]}}}'
        return Verdict(score=float(right), success=right)


async def test_an_unnoticed_edit_and_a_followed_link_are_failures(open_sandbox: OpenSandbox) -> None:
    failures = (await check(Lenient(), open_sandbox, count=1)).failures
    assert any("an edited ledger is not noticed" in failure for failure in failures)
    assert any("a link in place of answer.json is followed" in failure for failure in failures)


class Generous(LedgerSuite):
    async def verify(self, task: Task, workspace: Workspace, answer: str | None) -> Verdict:
        return Verdict(score=1.0, success=True)


async def test_a_reward_for_nothing_is_a_failure(open_sandbox: OpenSandbox) -> None:
    failures = (await check(Generous(), open_sandbox, count=1)).failures
    assert any("doing nothing scores 1.0, not 0" in failure for failure in failures)


class Ignorant(LedgerSuite):
    def oracle(self, task: Task) -> tuple[str, ...]:
        return (sum_command("missing.csv"),)


async def test_an_oracle_that_fails_is_a_failure(open_sandbox: OpenSandbox) -> None:
    failures = (await check(Ignorant(), open_sandbox, count=1)).failures
    assert any("the oracle scores 0.0, not 1" in failure for failure in failures)
    assert any("exit code 2: ledger: missing.csv" in failure for failure in failures)


class Moody(LedgerSuite):
    """Scores every other time."""

    looks = 0

    async def verify(self, task: Task, workspace: Workspace, answer: str | None) -> Verdict:
        self.looks += 1
        return Verdict(score=float(self.looks % 2), success=bool(self.looks % 2))


async def test_a_changing_mind_is_a_failure(open_sandbox: OpenSandbox) -> None:
    failures = (await check(Moody(), open_sandbox, count=1)).failures
    assert any("verifying twice" in failure for failure in failures)


class Tell(LedgerSuite):
    """A hidden rule that the naive way follows."""

    def naive(self, task: Task) -> tuple[str, ...]:
        return self.oracle(task)


async def test_a_rule_that_costs_nothing_is_a_failure(open_sandbox: OpenSandbox) -> None:
    report = await check(Tell(), open_sandbox)
    assert [bool(row.failures) for row in report.rows] == [bool(row.triggers) for row in report.rows]


class Drifting(LedgerSuite):
    loads = 0

    def load(self, *, split: str, count: int, seed: int, world: int) -> list[Task]:
        self.loads += 1
        return super().load(split=split, count=count, seed=self.loads, world=world)


async def test_tasks_that_change_between_loads_are_a_failure(open_sandbox: OpenSandbox) -> None:
    assert "loading twice gives different tasks" in (await check(Drifting(), open_sandbox, 1)).failures


async def test_a_suite_without_an_oracle_cannot_be_proved(open_sandbox: OpenSandbox, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"prompt": "p"}')
    with pytest.raises(ConfigError, match="cannot be proved"):
        await check_suite(
            JsonlSuite(tmp_path / "a.jsonl"),
            split="train",
            count=1,
            seed=0,
            world=0,
            open_sandbox=open_sandbox,
        )
