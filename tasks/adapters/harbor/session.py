"""One episode on a Harbor task: the system is laid out before the first prompt, and every step is verified after it."""

import shlex
from collections.abc import Sequence

from hermes_lab.errors import SandboxError
from hermes_lab.protocols import Sandbox, Workspace
from hermes_lab.suites import Turn
from hermes_lab.tasks.adapters.harbor.folder import HarborTask, Step
from hermes_lab.tasks.adapters.harbor.layout import exports, lay_out, pack_folder, put
from hermes_lab.tasks.adapters.harbor.machine import Python
from hermes_lab.tasks.adapters.harbor.verifier import run_script, verify_step
from hermes_lab.tools.registry import Tool
from hermes_lab.types import Verdict


class HarborSession:
    """The steps of a task; the next one is asked for in the same conversation and workspace."""

    tools: Sequence[Tool] = ()

    def __init__(self, task: HarborTask, python: Python, *, running: bool = False) -> None:
        self._task = task
        self._python = python
        self._running = running
        self._verdicts: list[Verdict] = []
        self._sandbox: Sandbox | None = None

    async def begin(self, sandbox: Sandbox) -> None:
        """See `SandboxSession`. Follows the Dockerfile, and prepares the first step."""
        self._sandbox = sandbox
        await lay_out(self._task, self._python, sandbox)
        await self._prepare(self._task.steps[0])

    async def next_user_turn(self, answer: str | None) -> Turn | None:
        """The instruction of the next step, once the current one is verified; None after the last, or after one whose
        reward is too low for another."""
        if not self._goes_on:
            return None
        verdict = await self._verify()
        if not _suffices(verdict, self._current.least):
            return None
        self._verdicts.append(verdict)
        await self._prepare(self._current)
        return Turn(self._current.instruction)

    async def verify(self, workspace: Workspace, answer: str | None, attempt: int = 1) -> Verdict:
        """The verdict on the current step, and with those before it on the whole task."""
        verdict = await self._verify()
        gave_up = self._goes_on and _suffices(verdict, self._current.least)
        return combined([*self._verdicts, verdict], self._task, gave_up=gave_up)

    async def solve(self) -> None:
        """Runs the current step's solution, as the agent could. Raises `SandboxError` if there is none."""
        step = self._current
        if step.solution is None:
            raise SandboxError(f"{self._task.id}: no solution/solve.sh")
        variables = {**self._task.environment, **self._task.solution_environment}
        where = f"{self._task.id}: solution/solve.sh"
        contents = [("solution", step.solution)]
        seconds = step.seconds or 600.0
        await run_script(contents, "/solution/solve.sh", variables, seconds, self._python, self._open, where)

    async def aclose(self) -> None:
        """Nothing is held."""

    @property
    def _open(self) -> Sandbox:
        assert self._sandbox is not None, "a session begins before it is used"
        return self._sandbox

    @property
    def _current(self) -> Step:
        return self._task.steps[len(self._verdicts)]

    @property
    def _goes_on(self) -> bool:
        return len(self._verdicts) + 1 < len(self._task.steps)

    async def _verify(self) -> Verdict:
        return await verify_step(self._task, self._current, self._python, self._open, running=self._running)

    async def _prepare(self, step: Step) -> None:
        """Puts the files of a step into the working directory, and runs its setup.sh there."""
        if step.workdir is None:
            return
        await put(self._task, pack_folder(step.workdir), self._task.workdir, self._open)
        if (step.workdir / "setup.sh").is_file():
            command = f"{exports(self._task.environment)}cd {shlex.quote(self._task.workdir)} && bash setup.sh"
            done = await self._open.exec(command, timeout=self._task.build_seconds, fresh=True)
            if done.exit_code:
                said = " ".join(done.output.split())[-300:] or "no output"
                where = f"{self._task.id}: steps/{step.name}/workdir/setup.sh"
                raise SandboxError(f"{where}: failed with exit code {done.exit_code}: {said}")


def _suffices(verdict: Verdict, least: dict[str, float] | object) -> bool:
    """Whether a step's rewards reach those without which no further step follows."""
    assert isinstance(least, dict)
    rewards = {"reward": verdict.score, **verdict.criteria}
    return all(rewards.get(name, float("-inf")) >= value for name, value in least.items())


def combined(verdicts: Sequence[Verdict], task: HarborTask, *, gave_up: bool) -> Verdict:
    """The verdict on a task: of its only step, of the last one, or the mean over the verified ones, as in Harbor.

    `gave_up`: the agent ended before steps that it could have gone on to. They count as 0.
    """
    if len(task.steps) == 1:
        return verdicts[0]
    names = [step.name for step in task.steps]
    scores = [each.score for each in verdicts] + [0.0] * gave_up * (len(names) - len(verdicts))
    score = scores[-1] if task.final else sum(scores) / len(scores)
    criteria = {name: verdict.score for name, verdict in zip(names, verdicts, strict=False)}
    reasons = {name: "failed" for name, value in criteria.items() if value < 1.0}
    for name in names[len(verdicts) :]:
        criteria[name], reasons[name] = 0.0, "was not reached"
    success = all(value >= 1.0 for value in criteria.values()) if not task.final else score >= 1.0
    return Verdict(score, success, criteria, reasons=reasons)
