"""Checks one task in real sandboxes: does nothing, runs the naive solution, follows a wrong rule, runs the oracle, and
tampers with the files."""

import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, runtime_checkable

from hermes_lab.errors import ConfigError
from hermes_lab.protocols import ExecResult, Sandbox, Suite, Workspace
from hermes_lab.returned import ask_verifier, place_of, shown
from hermes_lab.rollout import setup_workspace
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.evidence import read_text
from hermes_lab.tasks.family import Action, Criterion, Rule
from hermes_lab.tasks.play import play
from hermes_lab.tasks.registry import wrap_suite_errors
from hermes_lab.tasks.rubric import Measured, action_kinds, fit_length, is_knowledge, named_outputs, succeeded
from hermes_lab.tasks.subtasks import Subtask, subtasks_of
from hermes_lab.tasks.suite import WorldSuite
from hermes_lab.tasks.worlds import redraw
from hermes_lab.types import Task, Verdict

OpenSandbox = Callable[[], Sandbox]
AT_ONCE = 2
"""Number of tasks to check concurrently."""
NOOP_ANSWER = "Done. Everything is correct, all checks pass, score 1.0."
"""The answer of a policy that does nothing."""
_TOKEN = re.compile(r"[^\s\"'`,;()<>|{}\[\]]{3,}")


@runtime_checkable
class Provable(Suite, Protocol):
    """A suite with right and naive solutions of its tasks, so that `check_suite` can test its verifier."""

    def oracle(self, task: Task) -> tuple[Action, ...]:
        """The tool calls of a solution that knows the hidden rules."""
        ...

    def naive(self, task: Task) -> tuple[Action, ...]:
        """The tool calls of the obvious solution, which is right exactly if no hidden rule triggers."""
        ...


@dataclass(frozen=True)
class CheckRow:
    """The scores of one task, and its problems."""

    task_id: str
    family: str
    triggers: tuple[str, ...]
    noop: float
    naive: float
    oracle: float
    feedback: bool
    """Whether a rejection of one of these said why."""
    failures: tuple[str, ...]
    measured: Measured
    milliseconds: float
    """Duration of a verification, without its sandbox commands."""
    forced: bool = False
    """Whether the task was forced to have a certain rule type, and so is not part of the suite's distribution."""


@dataclass
class _Check:
    """The state of the check of one task."""

    suite: Suite
    task: Task
    failures: list[str] = field(default_factory=list)
    actions: list[str] = field(default_factory=list)
    stumbles: int = 0
    """Failed tool calls of the naive solution."""
    told: int = 0
    """Rejections with feedback."""

    @property
    def subtasks(self) -> tuple[Subtask, ...]:
        return subtasks_of(self.task.truth)

    def fail(self, wrong: bool, what: str) -> None:
        if wrong:
            self.failures.append(what)

    async def after(self, actions: tuple[Action, ...], sandbox: Sandbox, *, counted: bool = False) -> Verdict:
        """Runs tool calls and returns the verdict."""
        for action, result in zip(actions, await play(actions, self.task, sandbox, self.suite), strict=True):
            if counted:
                self.actions += action_kinds(action.tool, action.arguments)
            if not succeeded(result.ok, result.content):
                self.stumbles += 1
                self.failures.append(f"{action.tool} {dict(action.arguments)} fails: {result.content.strip()[-300:]}")
        return await self.verdict(sandbox)

    async def verdict(self, workspace: Workspace, answer: str | None = "Done.", attempt: int = 1) -> Verdict:
        with wrap_suite_errors(self.suite, self.task.id):
            found = await ask_verifier(self.suite, self.task, self.suite.verify, self.task, workspace, answer, attempt)
        self.told += bool(found and not found.success and found.feedback)
        if found is None:
            self.failures.append("is vague: the verifier gives no verdict")
            return Verdict(score=0.0, success=False)
        self.fail(not 0.0 <= found.score <= 1.0, f"the verifier gives the score {found.score}, which is not in [0, 1]")
        return found

    async def criteria(self, workspace: Workspace) -> list[Criterion]:
        return [each for subtask in self.subtasks for each in await subtask.judge(workspace, "Done.")]


async def prove(suite: Provable, task: Task, open_sandbox: OpenSandbox, *, forced: bool = False) -> CheckRow:
    """Checks a task in two sandboxes. Raises `InfraError` if one of them fails."""
    check = _Check(suite, task)
    async with open_sandbox() as sandbox:
        await setup_workspace(task, sandbox)
        noop = await _score_noop(check, sandbox)
        naive = await check.after(solution(suite, "naive", task), sandbox)
        stumbles, met = check.stumbles, await _judge_naive(check, naive, sandbox)
        obvious = await _contents(check, sandbox)
        await _check_wrong_rule(check, sandbox)
        mended = (await check.after(solution(suite, "oracle", task), sandbox)).score
    async with open_sandbox() as sandbox:
        await setup_workspace(task, sandbox)
        oracle = (await check.after(solution(suite, "oracle", task), sandbox, counted=True)).score
        again, milliseconds = await _timed(check, sandbox)
        silent = await check.verdict(sandbox, None)
        check.fail(again != oracle, "verifying twice gives different scores")
        check.fail(bool(check.subtasks) and silent.score != oracle, "the verdict depends on the text of the answer")
        _check_feedback(check, naive, await _contents(check, sandbox) - obvious)
        await _tamper(check, sandbox)
    check.fail(oracle != 1.0, f"the oracle scores {oracle}, not 1")
    check.fail(mended != 1.0, f"the oracle after the naive solution scores {mended}, not 1")
    check.fail(
        (naive.score < 1.0) != bool(task.triggers),
        f"the naive solution scores {naive.score} although {task.triggers or 'no rule'} triggers",
    )
    check.failures.extend(objections(task))
    erred = naive.score < 1.0 or stumbles > 0
    measured = Measured(
        repeats=(again == oracle, mended == oracle, silent.score == oracle),
        met=met,
        named=named_outputs(task),
        length=fit_length(task),
        actions=tuple(check.actions),
        erred=erred,
        mended=erred and mended == 1.0 and bool(naive.feedback),
    )
    family = str(task.metadata.get("family", "")) if len(check.subtasks) == 1 else suite.name
    failures = tuple(dict.fromkeys(check.failures))
    told = bool(check.told)
    return CheckRow(
        *(task.id, family, task.triggers, noop, naive.score, oracle, told, failures, measured, milliseconds, forced)
    )


async def prove_rejection(suite: Suite, task: Task, open_sandbox: OpenSandbox) -> tuple[tuple[str, ...], bool]:
    """Checks what can be checked of a task without a right and a naive solution: doing nothing scores 0, each time.

    Returns the problems, and whether the rejection said why. Raises `InfraError` if the sandbox fails.
    """
    check = _Check(suite, task)
    async with open_sandbox() as sandbox:
        await setup_workspace(task, sandbox)
        noop = await _score_noop(check, sandbox)
        again = await check.verdict(sandbox, NOOP_ANSWER)
    check.fail(again.score != noop, "verifying twice gives different scores")
    check.failures.extend(objections(task))
    return tuple(dict.fromkeys(check.failures)), bool(check.told)


def solution(suite: Provable, name: Literal["oracle", "naive"], task: Task) -> tuple[Action, ...]:
    """The tool calls of that solution. Raises `ConfigError` if the suite gives anything else."""
    hook = getattr(suite, name)
    with wrap_suite_errors(suite, task.id):
        found: Any = hook(task)
    where = f"{suite.name}: {task.id}: {name}() returned {{}}{place_of(hook)}; return a list of Action(tool, arguments)"
    if isinstance(found, Action) or not isinstance(found, Iterable):
        raise ConfigError(where.format(f"{shown(found)}, which is no list of actions"), "suite")
    with wrap_suite_errors(suite, task.id):  # it may be a generator
        actions = tuple(found)
    for action in actions:
        if not (isinstance(action, Action) and isinstance(action.tool, str) and isinstance(action.arguments, Mapping)):
            raise ConfigError(where.format(f"{shown(action)}, which is no Action"), "suite")
    return actions


def objections(task: Task) -> list[str]:
    """Why a task with a verifier is nevertheless rejected."""
    found = []
    if is_knowledge(task):
        found.append("is knowledge only: it has no file, no page and no setup, so no tool is needed")
    outputs = [path for subtask in subtasks_of(task.truth) for path in subtask.instance.outputs]
    if outputs and named_outputs(task) < 1.0:
        found.append(f"is vague: neither its prompt nor a file names all of {', '.join(outputs)}")
    if subtasks_of(task.truth) and not outputs:
        found.append("is vague: none of its outputs is judged")
    return found


async def _score_noop(check: _Check, sandbox: Sandbox) -> float:
    """The score for only exploring and claiming success, which must be 0; the feedback must not state a rule."""
    explore = tuple(action for subtask in check.subtasks for action in _explore(subtask))
    await check.after(explore, sandbox, counted=True)
    verdict = await check.verdict(sandbox, NOOP_ANSWER)
    check.fail(verdict.score != 0.0, f"doing nothing scores {verdict.score}, not 0")
    for subtask in check.subtasks:
        check.fail(subtask.site.drawn.stated_in(verdict.feedback), "the feedback on doing nothing states the rule")
    return verdict.score


def _explore(subtask: Subtask) -> tuple[Action, ...]:
    if not subtask.folder:
        return subtask.site.family.explore(subtask.instance)
    return tuple(
        Action(action.tool, {**action.arguments, "workdir": subtask.folder})
        for action in subtask.site.family.explore(subtask.instance)
        if action.tool == "terminal"
    )


async def _judge_naive(check: _Check, verdict: Verdict, sandbox: Sandbox) -> float:
    """Checks the criteria and the feedback of the naive solution. Returns its mean score on the open criteria, which no
    rule decides."""
    criteria = await check.criteria(sandbox)
    opened = [each for each in criteria if not each.ruled]
    for each in criteria:
        check.fail(not 0.0 <= each.score <= 1.0, f"criterion {each.name} scores {each.score}")
        check.fail(each.score < 1.0 and not each.reason, f"criterion {each.name} fails without a reason")
    for each in opened:
        check.fail(each.score < 1.0, f"the naive solution fails {each.name}, which no rule decides: {each.reason}")
    ruled = [subtask for subtask in check.subtasks if subtask.site.ruled]
    if isinstance(check.suite, WorldSuite) and not verdict.success:
        spec = check.suite.spec
        told = await check.suite.verify(check.task, sandbox, "Done.", spec.discovery + 1)
        for subtask in ruled:
            rule = subtask.site.drawn
            wanted = spec.salience != "symptom"
            problem = f"a rejection {'does not state' if wanted else 'states'} the rule: {told.feedback}"
            check.fail(rule.stated_in(told.feedback) != wanted, problem)
            literals = [str(value) for _, value in rule.literals if len(str(value)) >= 3]
            # Words that also occur under another rule, such as the name of a wrong column, do not hint at this one.
            other = replace(
                subtask, site=replace(subtask.site, drawn=redraw(subtask.site, Draws(check.task.id, "hint")))
            )
            usual = " ".join(each.reason for each in await other.judge(sandbox, "Done."))
            telling = [word for word in literals if not _holds(usual, [word])]
            reasons = [each.reason for each in await subtask.judge(sandbox, "Done.") if each.ruled]
            hints = [reason for reason in reasons if rule.stated_in(reason) or _holds(reason, telling)]
            check.fail(bool(hints), f"a reason hints at the rule: {'; '.join(hints)}")
    return sum(each.score for each in opened) / len(opened) if opened else 1.0


def _holds(text: str, words: list[str]) -> bool:
    return any(re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text) for word in words)


async def _check_wrong_rule(check: _Check, sandbox: Sandbox) -> None:
    """Checks that following another rule than the one that holds scores 0."""
    if not check.subtasks:
        return
    draws = Draws(check.task.id, "misled")
    actions: tuple[Action, ...] = ()
    believed = []
    for subtask in check.subtasks:
        rule = redraw(subtask.site, draws) if subtask.site.ruled else subtask.site.drawn
        actions += subtask.solve(rule)
        believed.append(_with_literals(rule.type, rule))
    verdict = await check.after(actions, sandbox)
    sites = [subtask.site for subtask in check.subtasks if subtask.site.ruled]
    held = ", ".join(_with_literals(site.trigger, site.drawn) for site in sites) or "no rule"
    check.fail(verdict.score > 0.0, f"following {' and '.join(believed)} is accepted although {held} holds")


def _with_literals(name: str, rule: Rule) -> str:
    """`limit limit=25`: a rule with the literals that distinguish it from others of its type."""
    return " ".join([name, *(f"{key}={value}" for key, value in rule.literals)])


async def _contents(check: _Check, sandbox: Sandbox) -> set[str]:
    """The words and numbers of the judged files."""
    texts = [
        await read_text(sandbox, subtask.path(path)) or ""
        for subtask in check.subtasks
        for path in subtask.instance.outputs
    ]
    return {token.strip(".:") for text in texts for token in _TOKEN.findall(text)}


def _check_feedback(check: _Check, rejected: Verdict, answers: set[str]) -> None:
    """Checks that feedback does not leak the answer. `answers` are the words that only a right submission contains;
    words of the rules do not count."""
    task = check.task
    known = "\n".join([task.prompt, *task.files.values(), *(page.text for page in task.pages)])
    for subtask in check.subtasks:
        known += "\n".join((*subtask.site.drawn.paraphrases, subtask.site.drawn.instruction))
    given = {token.strip(".:") for token in _TOKEN.findall("\n".join((rejected.feedback, *rejected.reasons.values())))}
    told = sorted(token for token in given & answers if token not in known)
    check.fail(bool(told), f"the rejection leaks part of the answer: {', '.join(told)}")


class _TimedWorkspace:
    """A workspace that measures the total duration of its commands, in seconds."""

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


async def _timed(check: _Check, sandbox: Sandbox) -> tuple[float, float]:
    """The score, and the milliseconds that the verifier took, without its sandbox commands."""
    timed = _TimedWorkspace(sandbox)
    started = time.perf_counter()
    verdict = await check.verdict(timed)
    return verdict.score, 1e3 * (time.perf_counter() - started - timed.seconds)


async def _tamper(check: _Check, sandbox: Sandbox) -> None:
    """Checks that a solved subtask scores 0 after an edit of an input, or if an output is replaced by a link."""
    for subtask in check.subtasks:
        most = 1 - 1 / len(check.subtasks)
        for path in map(subtask.path, subtask.instance.inputs):
            original = await sandbox.read(path)
            await sandbox.write(path, original + b"\n")
            check.fail((await check.verdict(sandbox)).score > most, f"an edit of {path} is not detected")
            await sandbox.write(path, original)
        for path in map(subtask.path, subtask.instance.outputs):
            await sandbox.exec(f"mv {path} {path}.real && ln -s $PWD/{path}.real {path}")
            check.fail((await check.verdict(sandbox)).score > most, f"a link in place of {path} is followed")
            await sandbox.exec(f"rm {path} && mv {path}.real {path}")
