"""Judging a submission: the suite's verifier, a model as a judge, and the workspace as it stood."""

from hermes_lab.verification.failures import explain, traceback_of
from hermes_lab.verification.judge import Judge, RecordedJudge, check_judge, open_judge
from hermes_lab.verification.recorded import RecordedVerdicts
from hermes_lab.verification.submission import Grader, Judged, Submission, judge_submission

__all__ = [
    "Grader",
    "Judge",
    "Judged",
    "RecordedJudge",
    "RecordedVerdicts",
    "Submission",
    "check_judge",
    "explain",
    "judge_submission",
    "open_judge",
    "traceback_of",
]
