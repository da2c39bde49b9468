"""One submission: the suite's verdict, and that of the judge where the task has a rubric."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol

import msgspec

from hermes_lab.errors import InfraError, VerifierError
from hermes_lab.protocols import Suite, Workspace
from hermes_lab.returned import NoVerdict, ask_verifier
from hermes_lab.suites import JudgedSuite
from hermes_lab.types import Judgement, Task, Verdict
from hermes_lab.verification.failures import explain

CRITERION = "judge"
"""The judge's entry in `Verdict.criteria`."""
Verify = Callable[[Workspace, str | None, int], Awaitable[Verdict | None]]


class Grader(Protocol):
    """Grades an answer by a rubric."""

    async def grade(self, task: Task, rubric: str, answer: str, submission: int) -> Judgement:
        """The judgement of all votes. Raises `JudgeError` if a vote has no grade."""
        ...


class Submission(NamedTuple):
    """A final answer, None if there is none, and its number from 1."""

    answer: str | None
    number: int = 1


class Judged(NamedTuple):
    """The verdict (None: the task has no verifier), and the judge's part of it."""

    verdict: Verdict | None
    judgement: Judgement | None = None


async def judge_submission(
    suite: Suite, task: Task, workspace: Workspace, submission: Submission, verify: Verify, grader: Grader | None
) -> Judged:
    """Runs the verifier, then the judge. `verify` is the suite's, or that of the task's session.

    The judge is not asked about work that is rejected anyway, or about no answer. Raises `InfraError`; a bug in the
    verifier, or anything but a `Verdict` from it, is a `VerifierError` with its file and line.
    """
    try:
        verdict = await ask_verifier(suite, task, verify, workspace, submission.answer, submission.number)
    except InfraError:
        raise
    except NoVerdict as error:
        raise VerifierError(error.message) from None
    except Exception as error:
        raise explain(error, type(suite).__module__) from error
    rubric = suite.judge_rubric(task) if isinstance(suite, JudgedSuite) else ""
    if not rubric or (verdict and not verdict.success):
        return Judged(verdict)
    if submission.answer is None:
        return Judged(_combined(verdict, passed=False, reason="there is no answer to judge"))
    if grader is None:
        raise VerifierError(
            f"{task.id}: is graded by a model, and there is no judge here (`judge` in the configuration)"
        )
    judgement = await grader.grade(task, rubric, submission.answer, submission.number)
    votes = sum(vote.grade == "C" for vote in judgement.votes)
    reason = f"{votes} of {len(judgement.votes)} votes for it"
    return Judged(_combined(verdict, passed=bool(judgement.passed), reason=reason), judgement)


def _combined(verdict: Verdict | None, *, passed: bool, reason: str) -> Verdict:
    """Both must hold."""
    before = verdict or Verdict(score=1.0, success=True)
    return msgspec.structs.replace(
        before,
        score=before.score * passed,
        success=passed,
        criteria={**before.criteria, CRITERION: float(passed)},
        reasons=before.reasons if passed else {**before.reasons, CRITERION: reason},
    )
