"""Values of reviews for tests of their groups."""

from hermes_lab.envs.learning.worth import ReviewValue
from hermes_lab.types import Reward


def review_value(episode: str, fork: int, policy: str) -> ReviewValue:
    """The value of a review that was worth as much as its number."""
    return ReviewValue(
        episode=episode,
        fork=fork,
        policy=policy,
        before="b",
        after="a",
        rollouts=1,
        solved_before=0,
        solved_after=0,
        listed=0.0,
        body=0.0,
        reward=Reward(float(fork)),
    )
