"""The proof of one task in real sandboxes: played by one who does nothing, in the obvious way, by one who believes what
is not so, and by the oracle; and tampered with."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

from hermes_lab.protocols import ExecResult, Sandbox, Suite, Workspace
from hermes_lab.rollout import setup_workspace
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.evidence import read_text
from hermes_lab.tasks.family import Action, Criterion, Rule
from hermes_lab.tasks.play import play
from hermes_lab.tasks.rubric import Measured, action_kinds, fit_length, is_knowledge, named_outputs, succeeded
from hermes_lab.tasks.subtasks import Subtask, subtasks_of
from hermes_lab.tasks.suite import WorldSuite
from hermes_lab.tasks.worlds import redraw
from hermes_lab.types import Task, Verdict

OpenSandbox = Callable[[], Sandbox]
AT_ONCE = 2
"""Tasks that are played at a time."""
BOAST = "Done. Everything is correct, all checks pass, score 1.0."
"""What a policy that does nothing says."""
_TOKEN = re.compile(r"[^\s\"'`,;()<>|{}\[\]]{3,}")


@runtime_checkable
class Provable(Suite, Protocol):
    """A suite that knows how its tasks are done, well and badly, so that `check_suite` can prove its verifier."""

    def oracle(self, task: Task) -> tuple[Action, ...]:
        """The tool calls of someone who knows the hidden rules."""
        ...

    def naive(self, task: Task) -> tuple[Action, ...]:
        """The tool calls of someone who does the obvious thing: right just where no hidden rule triggers."""
        ...


@dataclass(frozen=True)
class CheckRow:
    """The scores of one task, and what is wrong with it."""

    task_id: str
    family: str
    triggers: tuple[str, ...]
    noop: float
    naive: float
    oracle: float
    failures: tuple[str, ...]
    measured: Measured
    milliseconds: float
    """A verification took in the harness, beyond the commands that it ran."""
    forced: bool = False
    """Drawn to see a certain type of rule; no part of the suite's shares."""


@dataclass
class _Played:
    """One task on its way through the check."""

    suite: Provable
    task: Task
    failures: list[str] = field(default_factory=list)
    actions: list[str] = field(default_factory=list)
    stumbles: int = 0
    """Tool calls of the obvious way that failed."""

    @property
    def subtasks(self) -> tuple[Subtask, ...]:
        return subtasks_of(self.task.truth)

    def fail(self, wrong: bool, what: str) -> None:
        if wrong:
            self.failures.append(what)

    async def after(self, actions: tuple[Action, ...], sandbox: Sandbox, *, counted: bool = False) -> Verdict:
        """Plays, and judges."""
        for action, result in zip(actions, await play(actions, self.task, sandbox), strict=True):
            if counted:
                self.actions += action_kinds(action.tool, action.arguments)
            if not succeeded(result.ok, result.content):
                self.stumbles += 1
                self.failures.append(f"{action.tool} {dict(action.arguments)} fails: {result.content.strip()[-300:]}")
        return await self.verdict(sandbox)

    async def verdict(self, workspace: Workspace, answer: str | None = "Done.", attempt: int = 1) -> Verdict:
        found = await self.suite.verify(self.task, workspace, answer, attempt)
        if found is None:
            self.failures.append("is vague: there is nothing to judge it by")
            return Verdict(score=0.0, success=False)
        return found

    async def criteria(self, workspace: Workspace) -> list[Criterion]:
        return [each for subtask in self.subtasks for each in await subtask.judge(workspace, "Done.")]


async def prove(suite: Provable, task: Task, open_sandbox: OpenSandbox, *, forced: bool = False) -> CheckRow:
    """Plays it in two sandboxes. Raises `InfraError` where one of them fails."""
    played = _Played(suite, task)
    async with open_sandbox() as sandbox:
        await setup_workspace(task, sandbox)
        noop = await _look_only(played, sandbox)
        naive = await played.after(suite.naive(task), sandbox)
        stumbles, met = played.stumbles, await _judge_naive(played, naive, sandbox)
        obvious = await _contents(played, sandbox)
        await _mislead(played, sandbox)
        mended = (await played.after(suite.oracle(task), sandbox)).score
    async with open_sandbox() as sandbox:
        await setup_workspace(task, sandbox)
        oracle = (await played.after(suite.oracle(task), sandbox, counted=True)).score
        again, milliseconds = await _timed(played, sandbox)
        silent = await played.verdict(sandbox, None)
        played.fail(again != oracle, "verifying twice gives different scores")
        played.fail(bool(played.subtasks) and silent.score != oracle, "the verdict depends on the words of the answer")
        _feedback_tells_no_answer(played, naive, await _contents(played, sandbox) - obvious)
        await _tamper(played, sandbox)
    played.fail(oracle != 1.0, f"the oracle scores {oracle}, not 1")
    played.fail(mended != 1.0, f"the oracle after the naive way scores {mended}, not 1")
    played.fail(
        (naive.score < 1.0) != bool(task.triggers),
        f"the naive way scores {naive.score} where {task.triggers or 'no rule'} triggers",
    )
    played.failures.extend(objections(task))
    erred = naive.score < 1.0 or stumbles > 0
    measured = Measured(
        repeats=(again == oracle, mended == oracle, silent.score == oracle),
        met=met,
        named=named_outputs(task),
        length=fit_length(task),
        actions=tuple(played.actions),
        erred=erred,
        mended=erred and mended == 1.0 and bool(naive.feedback),
    )
    family = str(task.metadata.get("family", "")) if len(played.subtasks) == 1 else suite.name
    failures = tuple(dict.fromkeys(played.failures))
    return CheckRow(task.id, family, task.triggers, noop, naive.score, oracle, failures, measured, milliseconds, forced)


def objections(task: Task) -> list[str]:
    """Why a task that has a judge is refused all the same."""
    found = []
    if is_knowledge(task):
        found.append("is knowledge only: it has no file, no page and no setup, so no tool is needed")
    outputs = [path for subtask in subtasks_of(task.truth) for path in subtask.instance.outputs]
    if outputs and named_outputs(task) < 1.0:
        found.append(f"is vague: neither its prompt nor a file names all of {', '.join(outputs)}")
    if subtasks_of(task.truth) and not outputs:
        found.append("is vague: no output of it is judged")
    return found


async def _look_only(played: _Played, sandbox: Sandbox) -> float:
    """The score of one who looks around, does nothing, and says that all is well; no rule may be told for it."""
    explore = tuple(action for subtask in played.subtasks for action in _looks(subtask))
    await played.after(explore, sandbox, counted=True)
    verdict = await played.verdict(sandbox, BOAST)
    played.fail(verdict.score != 0.0, f"doing nothing scores {verdict.score}, not 0")
    for subtask in played.subtasks:
        played.fail(subtask.site.drawn.stated_in(verdict.feedback), "the rejection of doing nothing states the rule")
    return verdict.score


def _looks(subtask: Subtask) -> tuple[Action, ...]:
    if not subtask.folder:
        return subtask.site.family.explore(subtask.instance)
    return tuple(
        Action(action.tool, {**action.arguments, "workdir": subtask.folder})
        for action in subtask.site.family.explore(subtask.instance)
        if action.tool == "terminal"
    )


async def _judge_naive(played: _Played, verdict: Verdict, sandbox: Sandbox) -> float:
    """The share of the open criteria that the obvious way meets; what it is told must be the rule, where one holds."""
    criteria = await played.criteria(sandbox)
    opened = [each for each in criteria if not each.ruled]
    for each in criteria:
        played.fail(not 0.0 <= each.score <= 1.0, f"criterion {each.name} scores {each.score}")
        played.fail(each.score < 1.0 and not each.reason, f"criterion {each.name} fails without a reason")
    for each in opened:
        played.fail(each.score < 1.0, f"the naive way fails {each.name}, which no rule decides: {each.reason}")
    ruled = [subtask for subtask in played.subtasks if subtask.site.ruled]
    if isinstance(played.suite, WorldSuite) and not verdict.success:
        spec = played.suite.spec
        told = await played.suite.verify(played.task, sandbox, "Done.", spec.discovery + 1)
        for subtask in ruled:
            rule = subtask.site.drawn
            wanted = spec.salience != "symptom"
            played.fail(
                rule.stated_in(told.feedback) != wanted,
                f"a rejection should {'state' if wanted else 'not state'} the rule: {told.feedback}",
            )
            literals = [str(value) for _, value in rule.literals if len(str(value)) >= 3]
            # What is said under another rule too, such as the column that is wrong, tells nothing of this one.
            other = replace(
                subtask, site=replace(subtask.site, drawn=redraw(subtask.site, Draws(played.task.id, "hint")))
            )
            usual = " ".join(each.reason for each in await other.judge(sandbox, "Done."))
            telling = [word for word in literals if not _holds(usual, [word])]
            reasons = [each.reason for each in await subtask.judge(sandbox, "Done.") if each.ruled]
            hints = [reason for reason in reasons if rule.stated_in(reason) or _holds(reason, telling)]
            played.fail(bool(hints), f"a reason hints at the rule: {'; '.join(hints)}")
    return sum(each.score for each in opened) / len(opened) if opened else 1.0


def _holds(text: str, words: list[str]) -> bool:
    return any(re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text) for word in words)


async def _mislead(played: _Played, sandbox: Sandbox) -> None:
    """Somebody who believes another rule than the one that holds must be wrong."""
    if not played.subtasks:
        return
    draws = Draws(played.task.id, "misled")
    actions: tuple[Action, ...] = ()
    believed = []
    for subtask in played.subtasks:
        rule = redraw(subtask.site, draws) if subtask.site.ruled else subtask.site.drawn
        actions += subtask.solve(rule)
        believed.append(" ".join([rule.type, *_literals(rule)]))
    verdict = await played.after(actions, sandbox)
    sites = [subtask.site for subtask in played.subtasks if subtask.site.ruled]
    held = ", ".join(" ".join([site.trigger, *_literals(site.drawn)]) for site in sites) or "no rule"
    played.fail(verdict.score > 0.0, f"following {' and '.join(believed)} is accepted where {held} holds")


def _literals(rule: Rule) -> list[str]:
    """`limit=25`: the literals of a rule, which tell it from others of its type."""
    return [f"{name}={value}" for name, value in rule.literals]


async def _contents(played: _Played, sandbox: Sandbox) -> set[str]:
    """The words and numbers of the judged files."""
    texts = [
        await read_text(sandbox, subtask.path(path)) or ""
        for subtask in played.subtasks
        for path in subtask.instance.outputs
    ]
    return {token.strip(".:") for text in texts for token in _TOKEN.findall(text)}


def _feedback_tells_no_answer(played: _Played, rejected: Verdict, answers: set[str]) -> None:
    """`answers`: what a right submission holds and the obvious one does not. A rule's own words are no answer."""
    task = played.task
    known = "\n".join([task.prompt, *task.files.values(), *(page.text for page in task.pages)])
    for subtask in played.subtasks:
        known += "\n".join((*subtask.site.drawn.paraphrases, subtask.site.drawn.instruction))
    given = {token.strip(".:") for token in _TOKEN.findall("\n".join((rejected.feedback, *rejected.reasons.values())))}
    told = sorted(token for token in given & answers if token not in known)
    played.fail(bool(told), f"the rejection contains a part of the answer: {', '.join(told)}")


class _Clocked:
    """A workspace that counts the seconds of its commands."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self.seconds = 0.0

    async def read(self, path: str, limit: int = 10_000_000) -> bytes:
        return await self._workspace.read(path, limit)

    async def write(self, path: str, data: bytes) -> None:
        await self._workspace.write(path, data)

    async def exec(self, command: str, timeout: float = 180.0, workdir: str = "", fresh: bool = False) -> ExecResult:
        started = time.perf_counter()
        try:
            return await self._workspace.exec(command, timeout, workdir, fresh)
        finally:
            self.seconds += time.perf_counter() - started


async def _timed(played: _Played, sandbox: Sandbox) -> tuple[float, float]:
    """The score, and the milliseconds that judging took beyond its commands."""
    clocked = _Clocked(sandbox)
    started = time.perf_counter()
    verdict = await played.verdict(clocked)
    return verdict.score, 1e3 * (time.perf_counter() - started - clocked.seconds)


async def _tamper(played: _Played, sandbox: Sandbox) -> None:
    """Edits each input, and puts a link in place of each output, of a solved task: its piece must score nothing."""
    for subtask in played.subtasks:
        most = 1 - 1 / len(played.subtasks)
        for path in map(subtask.path, subtask.instance.inputs):
            original = await sandbox.read(path)
            await sandbox.write(path, original + b"\n")
            played.fail((await played.verdict(sandbox)).score > most, f"an edited {path} is not noticed")
            await sandbox.write(path, original)
        for path in map(subtask.path, subtask.instance.outputs):
            await sandbox.exec(f"mv {path} {path}.real && ln -s $PWD/{path}.real {path}")
            played.fail((await played.verdict(sandbox)).score > most, f"a link in place of {path} is followed")
            await sandbox.exec(f"rm {path} && mv {path}.real {path}")
