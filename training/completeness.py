"""Checks whether conversations and replies are usable for training: complete and written by the model itself."""

from collections.abc import Iterable

from hermes_lab.models.finish import SOUND, ending_of
from hermes_lab.types import Step, Trajectory

_A_TURN_ALONE = ("length", "malformed_call")
"""Finish reasons that exclude only their own turn, since later turns may show the recovery."""


def unfinished(trajectory: Trajectory) -> str | None:
    """Why a conversation is not usable, if it ended without an answer; otherwise None."""
    return None if trajectory.stop_reason == "answered" else f"ended as {trajectory.stop_reason}"


def spoilt(trajectory: Trajectory) -> str | None:
    """Why no turn of a conversation is usable, on either side of a pair; None if some turns are.

    A filtered or refused reply, or one with an unknown finish reason, is not the model's own output; the quality of an
    unparsed call is unknown.
    """
    if trajectory.stop_reason in ("filtered", "refused", "unparsed"):
        return f"ended as {trajectory.stop_reason}"
    ends = {str(ending_of(step.finish_reason)) for step in trajectory.steps} - {*SOUND, *_A_TURN_ALONE}
    return f"with a reply of finish reason {min(ends)}" if ends else None


def unsound_turns(steps: Iterable[Step]) -> set[int]:
    """Indices of incomplete assistant turns, which the model did not end itself."""
    return {step.message for step in steps if ending_of(step.finish_reason) not in SOUND}


def is_whole(trajectory: Trajectory) -> bool:
    """Whether all replies are complete."""
    return not unsound_turns(trajectory.steps)
