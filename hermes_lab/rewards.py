"""The reward of a rollout: a weighted sum of named terms, the same for runner, environments and training."""

import math
from collections.abc import Callable, Sequence

from hermes_lab.config.schema import RewardConfig
from hermes_lab.types import Reward, Trajectory, Verdict

Term = Callable[[Trajectory, Sequence[Verdict]], float]
"""What one thing about a rollout is worth before it is weighted. There is at least one verdict."""

TERMS: dict[str, Term] = {
    "score": lambda _, verdicts: verdicts[0].score,
    "accepted": lambda _, verdicts: float(verdicts[-1].success),
    "answered": lambda trajectory, _: float(trajectory.stop_reason == "answered"),
    "tool_calls": lambda trajectory, _: sum(len(message.results) for message in trajectory.messages),
}
"""By the names of `RewardConfig`'s fields."""

UNEARNED = ("answered", "tool_calls")
"""Terms that a rollout can raise without solving anything."""


def compute_reward(config: RewardConfig, trajectory: Trajectory, verdicts: Sequence[Verdict]) -> Reward | None:
    """The reward, with its weighted terms, which add up to it. None where nothing judged the work: that is no 0."""
    if not verdicts:
        return None
    terms = {name: weight * TERMS[name](trajectory, verdicts) for name, weight in config.weights.items()}
    return Reward(math.fsum(terms.values()), terms)


def reward_warnings(config: RewardConfig) -> str:
    """One line about a reward that can be had without solving anything; empty where it cannot."""
    given = [name for name in UNEARNED if config.weights.get(name, 0.0) > 0]
    if not given:
        return ""
    named = " and ".join(f"reward.{name}={config.weights[name]:g}" for name in given)
    return f"{named}: can be earned without solving anything; a policy that is trained on it learns to do just that"
