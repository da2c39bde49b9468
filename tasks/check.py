"""Checks a suite task by task in real sandboxes: the oracle scores 1, doing nothing scores 0, the naive solution fails
exactly where a hidden rule triggers, following a wrong rule fails, and tampering is detected."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import anyio

from hermes_lab.errors import ConfigError
from hermes_lab.protocols import Suite
from hermes_lab.returned import load_tasks
from hermes_lab.tasks.admission import forced, spread
from hermes_lab.tasks.learnable import learning_notes
from hermes_lab.tasks.proof import AT_ONCE, CheckRow, OpenSandbox, Provable, prove
from hermes_lab.tasks.rubric import Rubric, grade
from hermes_lab.tasks.suite import WorldSuite
from hermes_lab.types import Task

Tell = Callable[[int, int], None]
"""Called with the number of finished tasks and of all tasks."""

LEAST_HEADROOM = 30
"""Minimum difference between oracle and naive solution, in percentage points."""


@dataclass(frozen=True)
class CheckReport:
    """The result for one split of a suite, with one row per task."""

    suite: str
    split: str
    rows: tuple[CheckRow, ...]
    problems: tuple[str, ...]
    """Problems of the set of tasks rather than of a single task."""
    notes: tuple[str, ...] = ()
    """Why an experiment on these tasks could not show learning. They are no failures."""

    @property
    def drawn(self) -> tuple[CheckRow, ...]:
        """The rows of tasks that the suite generates, without those forced to have a certain rule type."""
        return tuple(row for row in self.rows if not row.forced)

    @property
    def failures(self) -> tuple[str, ...]:
        """All problems; empty if none were found."""
        return self.problems + tuple(f"{row.task_id}: {failure}" for row in self.rows for failure in row.failures)

    def sentence(self) -> str:
        """The result in one line."""
        found = f"{len(self.failures)} failures" if self.failures else "no problems"
        return (
            f"{self.suite} ({self.split}): {len(self.drawn)} tasks, {found}; oracle minus naive: "
            f"{100 * self.headroom:.0f} points"
        )

    @property
    def headroom(self) -> float:
        """The value of knowing the rules: the oracle's mean score minus the naive solution's."""
        return sum(row.oracle - row.naive for row in self.drawn) / len(self.drawn)

    @property
    def milliseconds(self) -> float:
        """Median duration of a verification, without its sandbox commands. Other tasks run concurrently, which may add
        to it."""
        return sorted(row.milliseconds for row in self.rows)[len(self.rows) // 2]

    @property
    def families(self) -> tuple[str, ...]:
        """The families of its tasks; several families of one task are joined by +."""
        return tuple(dict.fromkeys(row.family for row in self.drawn))

    def of(self, family: str) -> "CheckReport":
        """The report for one family."""
        rows = tuple(row for row in self.rows if row.family == family)
        return CheckReport(family, self.split, rows, ())


async def check_suite(
    suite: Suite,
    *,
    split: str,
    count: int,
    seed: int,
    world: int,
    open_sandbox: OpenSandbox,
    many_worlds: bool = False,
    tell: Tell = lambda done, wanted: None,
) -> CheckReport:
    """Runs `prove` on every task, two at a time. With `many_worlds`, each task has its own world and seed, counting up
    from `world` and `seed`; a suite with a single family is then also checked with rules of every type.

    Raises `ConfigError` for a suite that is not `Provable`, and `InfraError` if a sandbox fails.
    """
    if not isinstance(suite, Provable):
        raise ConfigError(f"suite {suite.name}: cannot be checked; it has no oracle and no naive solution")

    def drawn() -> list[Task]:
        if many_worlds and isinstance(suite, WorldSuite):
            return list(spread(suite, split, count, seed, world))
        return load_tasks(suite, split=split, count=count, seed=seed, world=world, fewer=True)

    tasks = drawn()
    problems = problems_of(tasks, drawn())
    alone = many_worlds and isinstance(suite, WorldSuite) and len(suite.families) == 1
    extra = every_type(suite, split, 1 + count // 60) if alone and isinstance(suite, WorldSuite) else []
    rows: dict[int, CheckRow] = {}
    slots = anyio.CapacityLimiter(AT_ONCE)

    async def one(number: int, task: Task) -> None:
        async with slots:
            rows[number] = await prove(suite, task, open_sandbox, forced=number >= len(tasks))
        tell(len(rows), len(tasks) + len(extra))

    async with anyio.create_task_group() as group:
        for number, task in enumerate([*tasks, *extra]):
            group.start_soon(one, number, task)
    checked = tuple(rows[n] for n in sorted(rows))
    notes = _notes(suite, split, count, seed, tasks, checked)
    return CheckReport(suite.name, split, checked, tuple(problems), tuple(notes))


def _notes(
    suite: Suite, split: str, count: int, seed: int, tasks: Sequence[Task], rows: Sequence[CheckRow]
) -> Iterator[str]:
    if isinstance(suite, WorldSuite):  # the lab's own, which have tests of their own
        return

    def draw(world: int) -> list[Task]:
        return load_tasks(suite, split=split, count=count, seed=seed, world=world, fewer=True)

    told = any(row.feedback for row in rows)
    yield from learning_notes(tasks, wanted=count, feedback=told, draw=draw)


def every_type(suite: WorldSuite, split: str, count: int) -> list[Task]:
    """`count` tasks for each rule type that the suite's families can have in a split, with such a rule in force."""
    found = []
    for family in suite.families:
        for name, kind in family.rules.items():
            if kind.unseen and split != "heldout":
                continue
            tries = (forced(suite, family, name, split, number) for number in range(1000, 1000 + 20 * count))
            possible = [task for task in tries if task is not None][:count]
            if not possible:
                raise ConfigError(f"{family.name}: no site in 20 {split} worlds can have the rule {name}")
            found += possible
    return found


def problems_of(tasks: list[Task], again: list[Task]) -> list[str]:
    """What is wrong with a set of tasks, of which `again` are the same, loaded once more."""
    problems = []
    if again != tasks:
        problems.append("loading twice gives different tasks")
    if len({task.id for task in tasks}) < len(tasks):
        problems.append("two tasks share an id")
    if any("|" in task.id or "/" in task.id for task in tasks):
        problems.append("an id contains '|' or '/'")
    return problems


def too_little(reports: Sequence[CheckReport]) -> list[str]:
    """Families whose rules make too little difference to measure learning."""
    parts = [report.of(family) for report in reports for family in report.families]
    return [
        f"{part.suite} ({part.split}): the rules are worth {100 * part.headroom:.0f} points; at least "
        f"{LEAST_HEADROOM} are required"
        for part in parts
        if 100 * part.headroom < LEAST_HEADROOM
    ]


def rubric_of(reports: Sequence[CheckReport]) -> Rubric:
    """The rubric of all generated tasks, without the forced ones."""
    return grade([row.measured for report in reports for row in report.drawn])
