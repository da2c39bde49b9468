"""Rounds of GRPO without a usable group: when to stop, and what to change (`hermes_lab.envs.advice`)."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from hermes_lab.config.schema import RunConfig
from hermes_lab.envs import refusals
from hermes_lab.envs.advice import Measured, Settings, Value, listed, tips
from hermes_lab.envs.advice import advice as episode_advice
from hermes_lab.envs.learning.advice import review_causes
from hermes_lab.envs.learning.worth import MeanValue
from hermes_lab.training.lock import HOW_TO_CHANGE, GrpoLock

EQUAL = f"with {refusals.EQUAL}"
"""The refusal of a group whose rewards do not differ (`hermes_lab.training.group_filter`)."""


class Start(NamedTuple):
    """What advice depends on: the lock, the configuration of the rollouts, the locked `max_token_length`, and whether
    the training started from an adapter and has families."""

    grpo: GrpoLock
    run: RunConfig
    longest: int
    parent: bool = False
    families: bool = False


def partly(used: int, wanted: int, advice: Callable[[], list[str]]) -> str:
    """A warning with advice if fewer than half of the `wanted` groups are usable; else ""."""
    if 2 * used >= wanted:
        return ""
    return f"only {used} of {wanted} groups are trained on. Try: {listed(advice())}"


def rounds_without_signal(used: Sequence[int]) -> int:
    """How many rounds without a usable group end the training here, given the usable groups of all rounds so far; 0:
    it goes on.

    The first round alone does: nothing shows that this policy can learn from these tasks. Later, one round may be bad
    luck, and the next one has new tasks; a second in a row by the same policy is not.
    """
    if used and not any(used):
        return len(used)
    return 2 if len(used) > 1 and not any(used[-2:]) else 0


def settings_of(start: Start) -> Settings:
    """The settings that GRPO advice refers to."""
    grpo, run = start.grpo, start.run
    lock = " in a new lock"
    sft = "train with SFT first (`hermes-lab train sft`) and start from it with parent=NAME"
    return Settings(
        run,
        Value("grpo.group_size", grpo.group_size, lock),
        Value("grpo.temperature", grpo.temperature, lock),
        Value("grpo.max_reply_tokens", grpo.max_reply_tokens, lock),
        Value("grpo.worker_timeout", grpo.worker_timeout, lock),
        Value("max_token_length", start.longest, lock),
        start="train the parent longer with SFT, on tasks of this kind" if start.parent else sft,
        medium="" if start.families else "such as `families` with a curriculum (docs/grpo.md)",
        where=" in rollouts",
    )


def advice(measured: Measured, refused: Mapping[str, int], start: Start) -> list[str]:
    """What to change, the most likely cause first."""
    settings = settings_of(start)
    return tips(refused, lambda: episode_advice(measured, settings), settings)


def review_advice(measured: Sequence[MeanValue], refused: Mapping[str, int], start: Start) -> list[str]:
    """The same for groups of reviews; `measured` are the rounds."""
    settings = settings_of(start)
    return tips(refused, lambda: review_causes(measured, settings), settings)


def reason(numbers: Sequence[int], measured: str, refused: Mapping[str, int], tips: Sequence[str]) -> str:
    """The message with which a training stops after the rounds `numbers`, in one line; `measured` says how they
    went."""
    rounds = f"round {numbers[0]}" if len(numbers) == 1 else f"rounds {numbers[0]} to {numbers[-1]}"
    counts = ", ".join(f"{count} {why}" for why, count in refused.items())
    counted = listed(tips)
    return (
        f"no usable group in {rounds} ({counts}): {measured}. GRPO learns only where the rewards of a group differ. "
        f"Try: {counted}{f' ({HOW_TO_CHANGE})' if 'new lock' in counted else ''}"
    )
