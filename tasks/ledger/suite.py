"""The suite `ledger`: tasks about the exports of a house's desks, and their verifier."""

import json
import math
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from hermes_lab.errors import ConfigError, ToolError
from hermes_lab.protocols import Workspace
from hermes_lab.skills.format import parse, render
from hermes_lab.skills.library import Library
from hermes_lab.types import Skill, Task, Verdict
from tasks.ledger.hints import write_hint
from tasks.ledger.house import draw_house, draw_table, render_table
from tasks.ledger.rules import SEEN, plain_total
from tasks.ledger.words import DELIVERIES, MONTHS, REQUESTS, VOCABULARIES
from tasks.worlds import Draws, WorldSpec, task_id

TOOL = "ledger"
ANSWER = "answer.json"
TOLERANCE = 0.005
ATTEMPTS = 2


def load(**world: int) -> "LedgerSuite":
    """The suite; `world` are fields of `WorldSpec`."""
    names = min(len(words.desks) for words in VOCABULARIES.values())
    return LedgerSuite(WorldSpec(**world).within(rules=len(SEEN), places=names))


def sum_command(file: str, flags: str = "") -> str:
    """The command that totals an export; without flags it is the obvious, naive one."""
    return f"./{TOOL} sum {file} --out {ANSWER} {flags}".rstrip()


def totals_skill(desk: str, clause: str, flags: str) -> Skill:
    """The skill that tells a desk's rule."""
    body = f"{clause[0].upper()}{clause[1:]}.\n\nRun: {sum_command(f'{desk}.csv', flags)}"
    return parse(render(f"{desk}-totals", f"How the {desk} desk's totals are made", body))


class LedgerSuite:
    """Endless tasks: task n of a (split, world, seed) is the same however many are loaded."""

    name = "ledger"
    splits = tuple(VOCABULARIES)

    def __init__(self, spec: WorldSpec | None = None) -> None:
        self.spec = spec or WorldSpec()

    def load(self, *, split: str, count: int, seed: int, world: int) -> list[Task]:
        """`count` tasks about desks drawn uniformly. Raises `ConfigError` for an unknown split or a count of
        0.
        """
        if split not in self.splits:
            raise ConfigError(f"suite.split: ledger has no split {split!r}; there are: {', '.join(self.splits)}")
        if count < 1:
            raise ConfigError("suite.count: ledger is endless; say how many tasks, at least 1")
        return [self._task(split, world, seed, number) for number in range(count)]

    def _task(self, split: str, world: int, seed: int, number: int) -> Task:
        draws = Draws("ledger", split, world, seed, number)
        desk = draws.choice(draw_house(split, world, self.spec))
        rows = draw_table(desk.shape, draws)
        date = f"{draws.integer(1, 28)} {draws.choice(MONTHS)}"
        request = draws.choice(REQUESTS).format(desk=desk.name, date=date, file=desk.file)
        rule = desk.rule
        return Task(
            id=task_id(split, world, seed, number),
            suite=self.name,
            prompt=f"{request} {draws.choice(DELIVERIES)}",
            domain="data_analysis",
            split=split,
            world=world,
            files={TOOL: tool_text(), desk.file: render_table(rows)},
            triggers=(f"{desk.name}:{rule.type}",) if rule else (),
            attempts=ATTEMPTS,
            truth={
                "total": float(rule.total(rows) if rule else plain_total(rows)),
                "file": desk.file,
                "flags": rule.flags if rule else "",
                "hint": write_hint(desk.name, rule, draws) if rule else "",
            },
            metadata={
                "desk": desk.name,
                "rule_type": rule.type if rule else "",
                "seen": rule is None or rule.seen,
            },
        )

    async def verify(self, task: Task, workspace: Workspace, answer: str | None) -> Verdict:
        """Judges `answer.json` and the inputs, never the prose of `answer`; 1.0 only where every criterion
        holds.
        """
        del answer
        untouched = await _untouched(task.files, workspace)
        found = await _read_total(workspace)
        correct = found.total is not None and abs(found.total - task.truth["total"]) <= TOLERANCE
        criteria = {
            "answer_present": float(found.present),
            "schema": float(found.total is not None),
            "correct": float(correct),
            "inputs_untouched": float(untouched),
        }
        success = all(criteria.values())
        feedback = "" if success else _feedback(task, found, untouched)
        return Verdict(score=float(success), success=success, criteria=criteria, feedback=feedback)

    def oracle(self, task: Task) -> tuple[str, ...]:
        """The command of someone who knows the rule."""
        return (sum_command(task.truth["file"], task.truth["flags"]),)

    def naive(self, task: Task) -> tuple[str, ...]:
        """The command of someone who does not."""
        return (sum_command(task.truth["file"]),)

    def known_skills(self, *, split: str, world: int) -> Library:
        """A skill for each rule of a world, as someone would write it who knows the house."""
        draws = Draws("ledger", "known", split, world)
        return Library(
            totals_skill(desk.name, desk.rule.clause(draws), desk.rule.flags)
            for desk in draw_house(split, world, self.spec)
            if desk.rule
        )

    def inputs(self, task: Task) -> tuple[str, ...]:
        """The files that must stay as they are: all that the task came with."""
        return tuple(task.files)

    def outputs(self, task: Task) -> tuple[str, ...]:
        """The files that are judged."""
        del task
        return (ANSWER,)


@cache
def tool_text() -> str:
    """The house tool, as it lies in every workspace."""
    return Path(__file__).with_name("tool.py").read_text()


class Found(NamedTuple):
    """What `answer.json` holds; `total` is None where it holds no number."""

    present: bool
    total: float | None


async def _read_total(workspace: Workspace) -> Found:
    try:
        data = await workspace.read(ANSWER, limit=10_000)
    except ToolError:
        return Found(False, None)
    try:
        content = json.loads(data)
        total = content["total"]
        if isinstance(total, bool) or not isinstance(total, int | float) or not math.isfinite(total):
            return Found(True, None)
        return Found(True, float(total))
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return Found(True, None)


async def _untouched(files: dict[str, str], workspace: Workspace) -> bool:
    """Whether every file still holds its first bytes; a missing file or a link does not."""
    return all([await _same(workspace, path, text) for path, text in files.items()])


async def _same(workspace: Workspace, path: str, text: str) -> bool:
    try:
        return await workspace.read(path) == text.encode()
    except ToolError:
        return False


def _feedback(task: Task, found: Found, untouched: bool) -> str:
    if not found.present:
        return f"Rejected: {ANSWER} is missing."
    if found.total is None:
        return f"Rejected: {ANSWER} is not JSON with a number `total`."
    if not untouched:
        return f"Rejected: {_listed(task.files)} must stay as they were."
    return task.truth["hint"] or "Rejected: the total is not right."


def _listed(names: Iterable[str]) -> str:
    return " and ".join(sorted(names))
