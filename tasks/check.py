"""A suite proves itself: the oracle scores 1, doing nothing 0, and tampering is seen."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from hermes_lab.errors import ConfigError
from hermes_lab.protocols import Sandbox, Suite
from hermes_lab.types import Task

OpenSandbox = Callable[[], Sandbox]


@runtime_checkable
class Provable(Suite, Protocol):
    """A suite that knows how its tasks are done, well and badly, so that `check_suite` can prove its
    verifier.
    """

    def oracle(self, task: Task) -> tuple[str, ...]:
        """Bash commands that solve the task, knowing its hidden rule."""
        ...

    def naive(self, task: Task) -> tuple[str, ...]:
        """Bash commands that solve it just where no hidden rule triggers."""
        ...

    def inputs(self, task: Task) -> tuple[str, ...]:
        """Files that the agent may not change."""
        ...

    def outputs(self, task: Task) -> tuple[str, ...]:
        """Files that the agent must leave."""
        ...


@dataclass(frozen=True)
class CheckRow:
    """The scores of one task, and what is wrong with it."""

    task_id: str
    triggers: tuple[str, ...]
    noop: float
    naive: float
    oracle: float
    failures: tuple[str, ...]


@dataclass(frozen=True)
class CheckReport:
    """The proof of a suite, a row a task."""

    suite: str
    split: str
    rows: tuple[CheckRow, ...]
    problems: tuple[str, ...]
    """What is wrong with the set of tasks rather than one of them."""

    @property
    def failures(self) -> tuple[str, ...]:
        """Everything that is wrong; empty for a sound suite."""
        return self.problems + tuple(f"{row.task_id}: {failure}" for row in self.rows for failure in row.failures)

    def sentence(self) -> str:
        """The proof in one line."""
        found = f"{len(self.failures)} failures" if self.failures else "sound"
        return f"{self.suite} ({self.split}): {len(self.rows)} tasks, {found}; the rules are worth {self.headroom:+.2f}"

    @property
    def headroom(self) -> float:
        """What knowing the rules is worth: mean score of the oracle less that of the naive way."""
        return sum(row.oracle - row.naive for row in self.rows) / len(self.rows)


async def check_suite(
    suite: Suite, *, split: str, count: int, seed: int, world: int, open_sandbox: OpenSandbox
) -> CheckReport:
    """Runs every task three ways in real sandboxes, and tampers with it.

    Raises `ConfigError` for a suite that is not `Provable`, `InfraError` where a sandbox fails.
    """
    if not isinstance(suite, Provable):
        raise ConfigError(f"suite {suite.name}: cannot be proved; it has no oracle, naive, inputs and outputs")
    tasks = suite.load(split=split, count=count, seed=seed, world=world)
    rows = [await _check_task(suite, task, open_sandbox) for task in tasks]
    again = suite.load(split=split, count=count, seed=seed, world=world)
    return CheckReport(suite.name, split, tuple(rows), tuple(_problems(tasks, again)))


def _problems(tasks: list[Task], again: list[Task]) -> list[str]:
    problems = []
    if again != tasks:
        problems.append("loading twice gives different tasks")
    if len({task.id for task in tasks}) < len(tasks):
        problems.append("two tasks share an id")
    if any("|" in task.id or "/" in task.id for task in tasks):
        problems.append("an id holds '|' or '/'")
    return problems


async def _check_task(suite: Provable, task: Task, open_sandbox: OpenSandbox) -> CheckRow:
    failures: list[str] = []
    async with _workspace(task, open_sandbox) as sandbox:
        noop = await _score(suite, task, sandbox)
        naive = await _after(suite, task, sandbox, suite.naive(task), failures)
    async with _workspace(task, open_sandbox) as sandbox:
        oracle = await _after(suite, task, sandbox, suite.oracle(task), failures)
        if await _score(suite, task, sandbox) != oracle:
            failures.append("verifying twice gives different scores")
        failures += await _tamper(suite, task, sandbox)
    if noop != 0.0:
        failures.append(f"doing nothing scores {noop}, not 0")
    if oracle != 1.0:
        failures.append(f"the oracle scores {oracle}, not 1")
    if (naive < 1.0) != bool(task.triggers):
        failures.append(f"the naive way scores {naive} where {task.triggers or 'no rule'} triggers")
    return CheckRow(task.id, task.triggers, noop, naive, oracle, tuple(failures))


async def _tamper(suite: Provable, task: Task, sandbox: Sandbox) -> list[str]:
    """Edits each input, and puts a link in place of each output, of a solved task; all must score 0."""
    failures = []
    for path in suite.inputs(task):
        original = await sandbox.read(path)
        await sandbox.write(path, original + b"\n")
        if await _score(suite, task, sandbox) != 0.0:
            failures.append(f"an edited {path} is not noticed")
        await sandbox.write(path, original)
    for path in suite.outputs(task):
        await sandbox.exec(f"mv {path} {path}.real && ln -s {path}.real {path}")
        if await _score(suite, task, sandbox) != 0.0:
            failures.append(f"a link in place of {path} is followed")
        await sandbox.exec(f"mv {path}.real {path}")
    return failures


@asynccontextmanager
async def _workspace(task: Task, open_sandbox: OpenSandbox) -> AsyncIterator[Sandbox]:
    async with open_sandbox() as sandbox:
        for path, text in task.files.items():
            await sandbox.write(path, text.encode())
        yield sandbox


async def _after(
    suite: Provable, task: Task, sandbox: Sandbox, commands: tuple[str, ...], failures: list[str]
) -> float:
    for command in commands:
        result = await sandbox.exec(command)
        if result.exit_code != 0:
            failures.append(f"{command!r} ends with exit code {result.exit_code}: {result.output.strip()[-200:]}")
    return await _score(suite, task, sandbox)


async def _score(suite: Provable, task: Task, sandbox: Sandbox) -> float:
    verdict = await suite.verify(task, sandbox, "Done.")
    return verdict.score if verdict else 0.0
