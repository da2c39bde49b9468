"""The reward of a rollout: a weighted sum of named terms, the same for runner, environments and training."""

import math
from collections.abc import Callable, Sequence

from hermes_lab.config.schema import RewardConfig
from hermes_lab.types import Reward, Trajectory, Verdict

Term = Callable[[RewardConfig, Trajectory, Sequence[Verdict]], float]
"""Computes the unweighted value of one reward term. There is at least one verdict."""

TERMS: dict[str, Term] = {
    "score": lambda _config, _trajectory, verdicts: verdicts[0].score,
    "accepted": lambda _config, _trajectory, verdicts: float(verdicts[-1].success),
    "recovered": lambda config, _trajectory, verdicts: _recovered(config.discount, verdicts),
    "answered": lambda _config, trajectory, _verdicts: float(trajectory.stop_reason == "answered"),
    "tool_calls": lambda _config, trajectory, _verdicts: sum(len(message.results) for message in trajectory.messages),
}
"""The terms by field name of `RewardConfig`."""

SOLVING = ("score", "accepted", "recovered")
"""Terms in [0, 1] that the verifier decides."""

UNEARNED = ("answered", "tool_calls")
"""Terms that a rollout can raise without solving anything."""


def _recovered(discount: float, verdicts: Sequence[Verdict]) -> float:
    """`discount` to the power of k - 1 if submission k (from 1) is the first accepted one; 0.0 without one."""
    return next((discount**rejected for rejected, verdict in enumerate(verdicts) if verdict.success), 0.0)


def compute_reward(config: RewardConfig, trajectory: Trajectory, verdicts: Sequence[Verdict]) -> Reward | None:
    """The total reward and its weighted terms; None, not 0, if nothing judged the work."""
    if not verdicts:
        return None
    terms = {name: weight * TERMS[name](config, trajectory, verdicts) for name, weight in config.weights.items()}
    return Reward(math.fsum(terms.values()), terms)


def earned_share(config: RewardConfig, reward: Reward) -> float | None:
    """The share of what solving can earn that a rollout has earned, in [0, 1]; None if no term rewards that.

    Terms that can be earned without solving anything, and costs, do not count.
    """
    best = {name: config.weights[name] for name in SOLVING if config.weights.get(name, 0.0) > 0}
    if not best:
        return None
    return math.fsum(reward.terms.get(name, 0.0) for name in best) / math.fsum(best.values())


def reward_warnings(config: RewardConfig) -> str:
    """A one-line warning if the weights reward rollouts that solve nothing; else empty."""
    given = [name for name in UNEARNED if config.weights.get(name, 0.0) > 0]
    if not given:
        return ""
    named = " and ".join(f"reward.{name}={config.weights[name]:g}" for name in given)
    return f"{named}: can be earned without solving anything; a policy that is trained on it learns to do just that"
