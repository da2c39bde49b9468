"""The reward of a rollout: a weighted sum of named terms, the same for runner, environments and training."""

import math
from collections.abc import Callable, Sequence

from hermes_lab.config.schema import RewardConfig
from hermes_lab.types import Reward, Trajectory, Verdict

Term = Callable[[Trajectory, Sequence[Verdict]], float]
"""Computes the unweighted value of one reward term. There is at least one verdict."""

TERMS: dict[str, Term] = {
    "score": lambda _, verdicts: verdicts[0].score,
    "accepted": lambda _, verdicts: float(verdicts[-1].success),
    "answered": lambda trajectory, _: float(trajectory.stop_reason == "answered"),
    "tool_calls": lambda trajectory, _: sum(len(message.results) for message in trajectory.messages),
}
"""The terms by field name of `RewardConfig`."""

UNEARNED = ("answered", "tool_calls")
"""Terms that a rollout can raise without solving anything."""


def compute_reward(config: RewardConfig, trajectory: Trajectory, verdicts: Sequence[Verdict]) -> Reward | None:
    """The total reward and its weighted terms; None, not 0, if nothing judged the work."""
    if not verdicts:
        return None
    terms = {name: weight * TERMS[name](trajectory, verdicts) for name, weight in config.weights.items()}
    return Reward(math.fsum(terms.values()), terms)


def reward_warnings(config: RewardConfig) -> str:
    """A one-line warning if the weights reward rollouts that solve nothing; else empty."""
    given = [name for name in UNEARNED if config.weights.get(name, 0.0) > 0]
    if not given:
        return ""
    named = " and ".join(f"reward.{name}={config.weights[name]:g}" for name in given)
    return f"{named}: can be earned without solving anything; a policy that is trained on it learns to do just that"
