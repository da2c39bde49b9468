"""New verdicts for one recorded episode."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec

from hermes_lab.commit import package_version
from hermes_lab.errors import InfraError, StoreError
from hermes_lab.models.reasoning import split_reasoning
from hermes_lab.protocols import ExecResult, Sandbox
from hermes_lab.rewards import compute_reward
from hermes_lab.runners.rescoring.source import Source
from hermes_lab.suites import SessionSuite
from hermes_lab.types import Episode, EpisodeError, Judgement, KeptWorkspace, Rescored, Task, Verdict
from hermes_lab.verification import Grader, Judged, Submission, judge_submission, traceback_of
from hermes_lab.verification.judge import JudgeError
from hermes_lab.verification.workspaces import FOLDER, read_workspace

ERRORED = "errored in the run, so there is nothing to judge"
NOT_KEPT = "the verifier reads the workspace, which was not kept (run.keep_workspaces)"


class NotPossible(Exception):
    """The verifier cannot be applied; the message says why."""


class _NeedsWorkspace(InfraError):
    """The verifier asked for a workspace that was not kept."""


class _NoWorkspace:
    """Stands for a workspace that was not kept. `asked` even if the verifier took the failure for the agent's."""

    def __init__(self) -> None:
        self.asked = False

    async def read(self, path: str, limit: int = 10_000_000) -> bytes:
        """Fails."""
        del path, limit
        raise self._error()

    async def write(self, path: str, data: bytes) -> None:
        """Fails."""
        del path, data
        raise self._error()

    async def exec(self, command: str, timeout: float = 180.0, workdir: str = "", fresh: bool = False) -> ExecResult:
        """Fails."""
        del command, timeout, workdir, fresh
        raise self._error()

    def _error(self) -> InfraError:
        self.asked = True
        return _NeedsWorkspace(NOT_KEPT)


class SilentJudge:
    """A `Grader` for a dry run: it asks nobody."""

    async def grade(self, task: Task, rubric: str, answer: str, submission: int) -> Judgement:
        """Raises `NotPossible`."""
        del task, rubric, answer, submission
        raise NotPossible("graded by the judge, whom a dry run does not ask")


@dataclass(frozen=True)
class Rescorer:
    """Applies the verifier of a source to its episodes."""

    source: Source
    open_sandbox: Callable[[], Sandbox]
    judge: Grader | None

    async def rescore(self, episode: Episode) -> Episode:
        """The episode with new verdicts, or without any and with the reason. A failing verifier makes it errored."""
        again = Rescored(self.source.verifier, episode.score, episode.success, lab=package_version())
        if episode.status == "errored" or episode.trajectory is None:
            return msgspec.structs.replace(episode, rescored=_problem(again, ERRORED))
        blank = msgspec.structs.replace(
            episode, score=None, success=None, reward=None, verdicts=(), judgements=(), rescored=again
        )
        try:
            judged, later = await self._judge(episode)
        except NotPossible as reason:
            return msgspec.structs.replace(blank, rescored=_problem(again, str(reason)))
        except InfraError as failure:
            error = EpisodeError(failure.kind, str(failure), traceback_of(failure))
            paid = (failure.judgement,) if isinstance(failure, JudgeError) else ()
            return msgspec.structs.replace(blank, status="errored", error=error, judgements=paid)
        verdicts = tuple(each.verdict for each in judged if each.verdict)
        first = verdicts[0]
        return msgspec.structs.replace(
            blank,
            score=first.score,
            success=first.success,
            reward=compute_reward(self.source.config.reward, episode.trajectory, verdicts),
            verdicts=verdicts,
            judgements=tuple(each.judgement for each in judged if each.judgement),
            rescored=msgspec.structs.replace(again, problem_later=later),
        )

    async def _judge(self, episode: Episode) -> tuple[list[Judged], str]:
        """The submissions' verdicts, up to the first accepted one, and why later ones have none.

        Raises `NotPossible` if the first submission has none.
        """
        task = self.source.task_of(episode)
        if task is None:
            raise NotPossible("the suite has no such task any more")
        if changed := self.source.change_of(episode, task):
            raise NotPossible(f"the task has changed since ({changed})")
        if isinstance(self.source.suite, SessionSuite):
            raise NotPossible("the verifier reads the state of a session, which is not kept")
        judged: list[Judged] = []
        for number, answer in enumerate(answers_of(episode), 1):
            kept = episode.workspaces[number - 1] if number <= len(episode.workspaces) else None
            try:
                judged.append(await self._verdict(task, answer, number, kept))
            except NotPossible as reason:
                if not judged:
                    raise
                return judged, str(reason)
            verdict = judged[-1].verdict
            if verdict is None:
                raise NotPossible("the task has no verifier any more")
            if verdict.success and not verdict.feedback:
                break
        return judged, ""

    async def _verdict(
        self, task: Task, answer: "str | Unknown | None", number: int, kept: KeptWorkspace | None
    ) -> Judged:
        if isinstance(answer, Unknown):
            raise NotPossible("the record does not tell the submissions apart")
        suite, submission = self.source.suite, Submission(answer, number)
        judge = partial(judge_submission, suite, task, verify=partial(suite.verify, task), grader=self.judge)
        if kept and kept.file:
            try:
                data = read_workspace(self.source.run / FOLDER, kept)
            except StoreError as error:
                raise NotPossible(f"the kept workspace cannot be used: {_reason(error)}") from None
            async with self.open_sandbox() as sandbox:
                try:
                    await sandbox.unpack(data)
                except OSError as error:
                    raise NotPossible(f"the kept workspace cannot be unpacked: {error.strerror}") from None
                return await judge(workspace=sandbox, submission=submission)
        missing = _NoWorkspace()
        judged = None
        try:
            judged = await judge(workspace=missing, submission=submission)
        except Exception:
            if not missing.asked:
                raise
        # Even with a verdict: a verifier that takes a missing file for the agent's failure gives a zero for no reason.
        if missing.asked or judged is None:
            raise NotPossible(f"the workspace was not kept: {_short(kept.problem)}" if kept else NOT_KEPT)
        return judged


class Unknown:
    """An answer that cannot be found in the record."""


def answers_of(episode: Episode) -> Sequence[str | Unknown | None]:
    """The final answer of each submission. Earlier ones stand before the feedback on them."""
    trajectory = episode.trajectory
    assert trajectory is not None, "an errored episode has no answer"
    messages = trajectory.messages
    prompts = [message.content for message in messages if message.role in ("system", "user")]
    answers: list[str | Unknown | None] = []
    at = 0
    for verdict in episode.verdicts[:-1]:
        found = next((n for n in range(at + 1, len(messages)) if _is_feedback(episode, n, verdict)), None)
        if found is None:
            answers.append(Unknown())
            continue
        answers.append(split_reasoning(messages[found - 1].content, prompts).answer)
        at = found
    return [*answers, trajectory.final_response]


def _is_feedback(episode: Episode, number: int, verdict: Verdict) -> bool:
    assert episode.trajectory is not None
    before, message = episode.trajectory.messages[number - 1 : number + 1]
    return episode.tells(message, verdict) and before.role == "assistant"


def _problem(again: Rescored, why: str) -> Rescored:
    return msgspec.structs.replace(again, problem=why)


def _reason(error: StoreError) -> str:
    """Without the path, so that episodes with the same problem are counted together."""
    return str(error).rpartition(": ")[2]


def _short(problem: str) -> str:
    """Without the path, as in `_reason`."""
    return problem.rpartition(": ")[2]
