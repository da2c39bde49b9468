"""What each review of a learning episode is worth."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec import Struct, field

from hermes_lab.envs.groups import weights_of
from hermes_lab.envs.learning.config import ReviewWorth
from hermes_lab.envs.learning.knowledge import Added, added, digest_of
from hermes_lab.envs.learning.run import LaneOutcome, Reviewed, followup_specs
from hermes_lab.envs.refusals import ERRORED, LIBRARIES, POLICIES, UNREVIEWED, UNSCORED
from hermes_lab.knowledge import Knowledge
from hermes_lab.types import Episode, Review, Reward

VALUE_VERSION = 1


class ReviewValue(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The value of one review: the reward, its terms, and what they were computed from.

    `episode` is the key of the finished episode, `fork` the number of the review. `before` and `after` identify the
    libraries (`digest_of`); `rollouts` were made with each of them, of which `solved_before` and `solved_after` were
    solved; 0 if the review changed nothing, which is worth 0 without any. `listed` and `body` are the tokens that it
    added.
    """

    v: int = field(default_factory=lambda: VALUE_VERSION)
    episode: str
    fork: int
    policy: str
    before: str
    after: str
    rollouts: int
    solved_before: int
    solved_after: int
    listed: float
    body: float
    reward: Reward


class Refused(NamedTuple):
    """Why the reviews of an episode have no value."""

    reason: str


def reviews_of(work: Episode) -> tuple[Review, ...]:
    """All reviews of a finished episode."""
    return (*([work.review] if work.review else []), *work.forks)


def values_of(outcome: LaneOutcome, reviewed: Reviewed, worth: ReviewWorth) -> list[ReviewValue] | Refused:
    """The values of all reviews of one finished episode, or why there are none.

    They are compared with each other, so one missing rollout, and one by another policy or with another library than
    it must be, refuses them all.
    """
    work = reviewed.work
    if not reviewed.after:
        return Refused(UNREVIEWED)
    after = [each for each in reviewed.after if each]
    if len(after) < len(reviewed.after):
        return Refused(ERRORED)
    if not all(review.trajectory and review.trajectory.steps for review in reviews_of(work)):
        return Refused(UNREVIEWED)  # the conversation leaves no room for a reply
    solved: dict[str, int] = {}
    for library in reviewed.changed:
        found = _followups(outcome, library, worth)
        if refused := _refusal(work, library, found):
            return refused
        solved[digest_of(library)] = sum(bool(each and each.success) for each in found)
    return [_value(reviewed, fork, library, solved, worth, outcome) for fork, library in enumerate(after)]


def _followups(outcome: LaneOutcome, library: Knowledge, worth: ReviewWorth) -> list[Episode | None]:
    specs = followup_specs(outcome.lane, worth, outcome.libraries[digest_of(library)], 0)
    return [outcome.followups.get(spec.key) for spec in specs]


def _refusal(work: Episode, library: Knowledge, followups: Sequence[Episode | None]) -> Refused | None:
    for episode in followups:
        if episode is None:
            return Refused(ERRORED)
        if (weights_of(episode), episode.config_digest) != (weights_of(work), work.config_digest):
            return Refused(POLICIES)
        if (episode.skills.snapshot, episode.memory.snapshot) != (library.library.snapshot, library.notes_snapshot):
            return Refused(LIBRARIES)
        if episode.success is None:
            return Refused(UNSCORED)
    return None


def _value(
    reviewed: Reviewed, fork: int, after: Knowledge, solved: dict[str, int], worth: ReviewWorth, outcome: LaneOutcome
) -> ReviewValue:
    before, rollouts = reviewed.before, worth.repeats * len(outcome.lane.followups)
    unchanged = digest_of(after) == digest_of(before)
    tokens = added(before, after)
    solved_before = 0 if unchanged else solved[digest_of(before)]
    solved_after = 0 if unchanged else solved[digest_of(after)]
    return ReviewValue(
        episode=reviewed.work.key,
        fork=fork,
        policy=reviewed.work.model.policy,
        before=digest_of(before),
        after=digest_of(after),
        rollouts=0 if unchanged else rollouts,
        solved_before=solved_before,
        solved_after=solved_after,
        listed=tokens.listed,
        body=tokens.body,
        reward=review_reward(solved_before / rollouts, solved_after / rollouts, tokens, worth),
    )


def review_reward(without: float, with_: float, tokens: Added, worth: ReviewWorth) -> Reward:
    """success with the library after the review - success with the one before - the cost of the tokens it adds."""
    terms = {
        "with": with_,
        "without": 0.0 - without,
        "listed": 0.0 - worth.listed_cost * tokens.listed,
        "body": 0.0 - worth.body_cost * tokens.body,
    }
    return Reward(sum(terms.values()), terms)


class MeanValue(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The reviews of several learning episodes: how many were measured, how many changed the library, the mean reward,
    the mean change of success, its two rates over the reviews that changed something, and the mean cost."""

    reviews: int
    wrote: int
    value: float
    uplift: float
    with_: float = 0.0
    without: float = 0.0
    cost: float = 0.0

    def sentence(self) -> str:
        """For a report."""
        if not self.reviews:
            return "no review was measured"
        change = f", {100 * self.without:.0f} % -> {100 * self.with_:.0f} % of follow-ups solved" if self.wrote else ""
        return (
            f"mean value of a review {self.value:+.3f} ({self.uplift:+.3f} success, {0.0 - self.cost:+.3f} cost); "
            f"{self.wrote} of {self.reviews} reviews changed the library{change}"
        )


def mean_value(values: Iterable[ReviewValue]) -> MeanValue:
    """The mean over all reviews. Those that changed nothing count as 0."""
    values = list(values)
    wrote = [value for value in values if value.rollouts]
    return MeanValue(
        reviews=len(values),
        wrote=len(wrote),
        value=_mean([value.reward.value for value in values]),
        uplift=_mean([value.reward.terms["with"] + value.reward.terms["without"] for value in values]),
        with_=_mean([value.solved_after / value.rollouts for value in wrote]),
        without=_mean([value.solved_before / value.rollouts for value in wrote]),
        cost=_mean([-(value.reward.terms["listed"] + value.reward.terms["body"]) for value in values]),
    )


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers) if numbers else 0.0
