"""Rounds of GRPO without a usable group: when to stop, and what to change (`hermes_lab.envs.advice`)."""

from collections.abc import Mapping, Sequence

from hermes_lab.config.schema import RunConfig
from hermes_lab.envs.advice import Measured, Settings, Value, add, listed, measure
from hermes_lab.envs.advice import advice as _advice
from hermes_lab.training.lock import HOW_TO_CHANGE, GrpoLock

__all__ = ["EQUAL", "Measured", "add", "advice", "measure", "partly", "reason", "settings_of", "starved"]

EQUAL = "with equal rewards"
"""The refusal of a group whose rewards do not differ (`hermes_lab.training.group_filter`)."""
_REMEDIES = {
    "of another policy": "the server did not serve the policy in training: start a new server, and train again",
    "held out": "draw tasks that are not held out: rollouts with another suite.world, or check gate.held_out",
    "with errored rollouts": "rollouts failed on infrastructure: see their errors with `hermes-lab show`",
    "without a scored rollout": "nothing judged the rollouts: see their errors with `hermes-lab show`",
    "longer than max_token_length": "max_token_length above the longest rollout in a new lock, or less text: "
    "agent.prompt=compact, fewer agent.toolsets, a lower agent.max_iterations",
}
"""Advice by refusal."""


def partly(measured: Measured, used: int) -> str:
    """A warning if a round has usable groups, but fewer than half; else ""."""
    if not 0 < 2 * used < measured.groups:
        return ""
    hard = measured.failed >= measured.solved_groups
    return (
        f"only {used} of {measured.groups} groups are trained on, the other rollouts teach nothing: "
        f"{'easier tasks or SFT first' if hard else 'harder tasks'}, or more samples of a task, give more of them"
    )


def starved(used: Sequence[int]) -> int:
    """How many rounds without a usable group end the training here, given the usable groups of all rounds so far; 0:
    it goes on.

    The first round alone does: nothing shows that this policy can learn from these tasks. Later, one round may be bad
    luck, and the next one has new tasks; a second in a row by the same policy is not.
    """
    if used and not any(used):
        return len(used)
    return 2 if len(used) > 1 and not any(used[-2:]) else 0


def settings_of(grpo: GrpoLock, run: RunConfig, *, parent: bool) -> Settings:
    """What advice names in a GRPO training. `run` is the configuration of the rollouts; `parent` is whether the
    training started from an adapter."""
    lock = " in a new lock"
    start = "train with SFT first (`hermes-lab train sft`) and start from it with parent=NAME"
    return Settings(
        run,
        Value("grpo.group_size", grpo.group_size, lock),
        Value("grpo.temperature", grpo.temperature, lock),
        Value("grpo.max_reply_tokens", grpo.max_reply_tokens, lock),
        Value("grpo.worker_timeout", grpo.worker_timeout, lock),
        start="train the parent longer with SFT, on tasks of this kind" if parent else start,
        medium="such as `families` with a curriculum (docs/grpo.md)",
        where=" in rollouts",
    )


def advice(
    measured: Measured, refused: Mapping[str, int], grpo: GrpoLock, run: RunConfig, *, parent: bool
) -> list[str]:
    """What to change, the most likely cause first; see `settings_of`."""
    others = {reason: count for reason, count in refused.items() if reason != EQUAL}
    if others and sum(others.values()) >= refused.get(EQUAL, 0):
        return [_REMEDIES[reason] for reason in sorted(others, key=lambda reason: -others[reason])]
    return _advice(measured, settings_of(grpo, run, parent=parent))


def reason(
    numbers: Sequence[int], measured: Measured, refused: Mapping[str, int], grpo: GrpoLock, tips: Sequence[str]
) -> str:
    """The message with which a training stops after the rounds `numbers`, in one line."""
    rounds = f"round {numbers[0]}" if len(numbers) == 1 else f"rounds {numbers[0]} to {numbers[-1]}"
    refusals = ", ".join(f"{count} {why}" for why, count in refused.items())
    counted = listed(tips)
    return (
        f"no usable group in {rounds} ({refusals}): {measured.sentence(grpo.max_reply_tokens, grpo.temperature)}. GRPO "
        "learns only where the rewards of a task's rollouts differ. Try: "
        f"{counted}{f' ({HOW_TO_CHANGE})' if 'new lock' in counted else ''}"
    )
