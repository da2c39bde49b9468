"""A suite proves itself task by task, in real sandboxes: the oracle scores 1, doing nothing 0, the obvious way fails
just where a hidden rule triggers, a wrong belief fails, and tampering is seen."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import anyio

from hermes_lab.errors import ConfigError
from hermes_lab.protocols import Suite
from hermes_lab.tasks.admission import forced, spread
from hermes_lab.tasks.proof import AT_ONCE, CheckRow, OpenSandbox, Provable, prove
from hermes_lab.tasks.rubric import Rubric, grade
from hermes_lab.tasks.suite import WorldSuite
from hermes_lab.types import Task

Tell = Callable[[int, int], None]
"""Gets the number of tasks that are done, and of all."""

LEAST_HEADROOM = 30
"""Points that the rules of a world are worth at least."""


@dataclass(frozen=True)
class CheckReport:
    """The proof of one split of a suite, a row a task."""

    suite: str
    split: str
    rows: tuple[CheckRow, ...]
    problems: tuple[str, ...]
    """What is wrong with the set of tasks rather than one of them."""

    @property
    def drawn(self) -> tuple[CheckRow, ...]:
        """The tasks as the suite draws them."""
        return tuple(row for row in self.rows if not row.forced)

    @property
    def failures(self) -> tuple[str, ...]:
        """Everything that is wrong; empty for a sound suite."""
        return self.problems + tuple(f"{row.task_id}: {failure}" for row in self.rows for failure in row.failures)

    def sentence(self) -> str:
        """The proof in one line."""
        found = f"{len(self.failures)} failures" if self.failures else "sound"
        return (
            f"{self.suite} ({self.split}): {len(self.drawn)} tasks, {found}; the rules are worth "
            f"{100 * self.headroom:.0f} points"
        )

    @property
    def headroom(self) -> float:
        """What knowing the rules is worth: mean score of the oracle less that of the naive way."""
        return sum(row.oracle - row.naive for row in self.drawn) / len(self.drawn)

    @property
    def milliseconds(self) -> float:
        """The median of the verifications, in the harness alone; those of other tasks may lie in between."""
        return sorted(row.milliseconds for row in self.rows)[len(self.rows) // 2]

    @property
    def families(self) -> tuple[str, ...]:
        """Those that its tasks are of, or several joined by +."""
        return tuple(dict.fromkeys(row.family for row in self.drawn))

    def of(self, family: str) -> "CheckReport":
        """The part about one family."""
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
    """Plays every task in real sandboxes, two at once, and tampers with it. With `many_worlds` each task is of a world
    and a seed of its own, from these on, and of a suite of one family rules of every type are played besides.

    Raises `ConfigError` for a suite that is not `Provable`, `InfraError` where a sandbox fails.
    """
    if not isinstance(suite, Provable):
        raise ConfigError(f"suite {suite.name}: cannot be proved; it has no oracle and naive")

    def drawn() -> list[Task]:
        if many_worlds and isinstance(suite, WorldSuite):
            return list(spread(suite, split, count, seed, world))
        return suite.load(split=split, count=count, seed=seed, world=world)

    tasks = drawn()
    problems = _problems(tasks, drawn())
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
    return CheckReport(suite.name, split, tuple(rows[n] for n in sorted(rows)), tuple(problems))


def every_type(suite: WorldSuite, split: str, count: int) -> list[Task]:
    """`count` tasks for each type of rule that the families of a suite can have in a split, where it holds."""
    found = []
    for family in suite.families:
        for name, kind in family.rules.items():
            if kind.unseen and split != "heldout":
                continue
            tries = (forced(suite, family, name, split, number) for number in range(1000, 1000 + 20 * count))
            possible = [task for task in tries if task is not None][:count]
            if not possible:
                raise ConfigError(f"{family.name}: no place of 20 worlds of {split} can have the rule {name}")
            found += possible
    return found


def _problems(tasks: list[Task], again: list[Task]) -> list[str]:
    problems = []
    if again != tasks:
        problems.append("loading twice gives different tasks")
    if len({task.id for task in tasks}) < len(tasks):
        problems.append("two tasks share an id")
    if any("|" in task.id or "/" in task.id for task in tasks):
        problems.append("an id contains '|' or '/'")
    return problems


def too_little(reports: Sequence[CheckReport]) -> list[str]:
    """Families whose rules are worth too little to be learnt."""
    parts = [report.of(family) for report in reports for family in report.families]
    return [
        f"{part.suite} ({part.split}): the rules are worth {100 * part.headroom:.0f} points, not {LEAST_HEADROOM}"
        for part in parts
        if 100 * part.headroom < LEAST_HEADROOM
    ]


def rubric_of(reports: Sequence[CheckReport]) -> Rubric:
    """The rubric of all tasks that were drawn."""
    return grade([row.measured for report in reports for row in report.drawn])
