"""Which conversations and replies are sound enough to learn from: whole, and the model's own."""

from collections.abc import Iterable

from hermes_lab.models.finish import SOUND, ending_of
from hermes_lab.types import Step, Trajectory

_A_TURN_ALONE = ("length", "malformed_call")
"""Ends that spoil their own turn: those after it may show how it is mended."""


def unfinished(trajectory: Trajectory) -> str | None:
    """Why a conversation is no example: it ended in another way than with an answer. None where it is one."""
    return None if trajectory.stop_reason == "answered" else f"ended as {trajectory.stop_reason}"


def spoilt(trajectory: Trajectory) -> str | None:
    """Why nothing of a conversation may be learnt from, on either side of a pair; None where something may.

    A reply that a filter withheld, that the endpoint marked as a refusal, or whose end nobody knows is not what the
    model would say; a call that was not read says nothing of whether it was a good one.
    """
    if trajectory.stop_reason in ("filtered", "refused", "unparsed"):
        return f"ended as {trajectory.stop_reason}"
    ends = {str(ending_of(step.finish_reason)) for step in trajectory.steps} - {*SOUND, *_A_TURN_ALONE}
    return f"with a reply of finish reason {min(ends)}" if ends else None


def unsound_turns(steps: Iterable[Step]) -> set[int]:
    """The indices of assistant turns that are not whole: their end was not the model's."""
    return {step.message for step in steps if ending_of(step.finish_reason) not in SOUND}


def is_whole(trajectory: Trajectory) -> bool:
    """Whether no reply was cut, or is in another way not whole."""
    return not unsound_turns(trajectory.steps)
