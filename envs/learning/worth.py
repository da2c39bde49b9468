"""What each review of a learning episode is worth."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec import Struct, field

from hermes_lab.envs.groups import weights_of
from hermes_lab.envs.learning.config import ReviewWorth
from hermes_lab.envs.learning.knowledge import Added, added, digest_of
from hermes_lab.envs.learning.run import LaneOutcome, Reviewed, followup_specs
from hermes_lab.envs.refusals import ERRORED, LIBRARIES, POLICIES, REWRITTEN, UNREVIEWED, UNSCORED
from hermes_lab.knowledge import Knowledge
from hermes_lab.text.counted import counted
from hermes_lab.types import Episode, Review, Reward

VALUE_VERSION = 1


class ReviewValue(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The value of one review: the reward, its terms, and what they were computed from.

    `episode` is the key of the finished episode, `fork` the number of the review. `before` and `after` identify the
    libraries (`digest_of`); `rollouts` were made with each of them, of which `solved_before` and `solved_after` were
    solved; 0 if the review changed nothing, which is worth 0 without any. `listed` and `body` are the tokens that it
    added. `ended` is the review's stop reason, "" in older records.
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
    ended: str = ""


class Refused(NamedTuple):
    """Why the reviews of an episode have no value."""

    reason: str


def reviews_of(work: Episode) -> tuple[Review, ...]:
    """All reviews of a finished episode."""
    return (*([work.review] if work.review else []), *work.forks)


def values_of(outcome: LaneOutcome, reviewed: Reviewed, worth: ReviewWorth) -> list[ReviewValue] | Refused:
    """The values of all reviews of one finished episode, or why there are none.

    They are compared with each other, so one missing rollout, and one by another policy or with another library than
    it must be, refuses them all. So does a rewritten prompt of one of several reviews: each continues a summary of its
    own.
    """
    work = reviewed.work
    if not reviewed.after:
        return Refused(UNREVIEWED)
    after = [each for each in reviewed.after if each]
    if len(after) < len(reviewed.after):
        return Refused(ERRORED)
    if not all(review.trajectory and review.trajectory.steps for review in reviews_of(work)):
        return Refused(UNREVIEWED)  # the conversation leaves no room for a reply
    if _is_rewritten(work):
        return Refused(REWRITTEN)
    solved: dict[str, int] = {}
    for library in reviewed.changed:
        found = _followups(outcome, library, worth)
        if refused := _refusal(work, library, found):
            return refused
        solved[digest_of(library)] = sum(bool(each and each.success) for each in found)
    return [_value(reviewed, fork, library, solved, worth, outcome) for fork, library in enumerate(after)]


def _is_rewritten(work: Episode) -> bool:
    """Whether the context of one of several reviews was compressed, or they do not begin with the same tokens."""
    reviews = [review.trajectory for review in reviews_of(work) if review.trajectory]
    before = work.trajectory.compressions if work.trajectory else ()
    firsts = [trajectory.branches[0] for trajectory in reviews if trajectory.branches]
    prompts = {first.token_ids[: first.mask.index(1)] if 1 in first.mask else first.token_ids for first in firsts}
    return len(reviews) > 1 and (len(prompts) > 1 or any(each.compressions != before for each in reviews))


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
    trajectory = reviews_of(reviewed.work)[fork].trajectory
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
        ended=trajectory.stop_reason if trajectory else "",
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
    the mean change of success, its two rates over the reviews that changed something, and the mean cost. `cut` reviews
    ended with a reply at its token limit, `unparsed` ones with a call in an unknown format.

    `error` is the standard error of the mean reward over `episodes` learning episodes, whose reviews share rollouts and
    so are not independent; None if it is not known, as for fewer than two of them.
    """

    reviews: int
    wrote: int
    value: float
    uplift: float
    with_: float = 0.0
    without: float = 0.0
    cost: float = 0.0
    episodes: int = 0
    error: float | None = None
    cut: int = 0
    unparsed: int = 0

    def sentence(self) -> str:
        """For a report."""
        if not self.reviews:
            return "no review was measured"
        change = f", {100 * self.without:.0f} % -> {100 * self.with_:.0f} % of follow-ups solved" if self.wrote else ""
        cost = f"{0.0 - self.cost:+.3f} cost" if self.cost else "no cost"
        return (
            f"mean value of a review {self.value:+.3f} ({self.uplift:+.3f} success, {cost}){self._certainty()}; "
            f"{self.wrote} of {self.reviews} reviews changed the library{change}{self._broken()}"
        )

    def _broken(self) -> str:
        """Reviews whose last reply did nothing: most of them are worth 0 for that reason alone."""
        counts = {"cut at the token limit": self.cut, "with a call in an unknown format": self.unparsed}
        return "".join(f", {count} {how}" for how, count in counts.items() if count)

    def _certainty(self) -> str:
        if not self.episodes:  # of an older version
            return ""
        over = counted(self.episodes, "learning episode")
        known = "unknown from" if self.error is None else f"{self.error:.3f} over"
        return f", standard error {known} {over}"


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
        episodes=len(set(map(_learning_episode, values))),
        error=_clustered_error(values),
        cut=sum(value.ended == "length" for value in values),
        unparsed=sum(value.ended == "unparsed" for value in values),
    )


def _clustered_error(values: Sequence[ReviewValue]) -> float | None:
    """The standard error of the mean reward, with reviews of a learning episode as a cluster; None for fewer than two.

    With N reviews in C clusters it is sqrt(C / (C - 1) sum over clusters of (sum of deviations from the mean)^2) / N
    (Liang and Zeger 1986; for a mean see Cameron and Miller 2015, section II).
    """
    mean = _mean([value.reward.value for value in values])
    sums: dict[tuple[str, ...], float] = defaultdict(float)
    for value in values:
        sums[_learning_episode(value)] += value.reward.value - mean
    if len(sums) < 2:
        return None
    spread = math.fsum(each * each for each in sums.values()) * len(sums) / (len(sums) - 1)
    return math.sqrt(spread) / len(values)


def _learning_episode(value: ReviewValue) -> tuple[str, ...]:
    """Its suite and lane."""
    suite, *rest = value.episode.split("|")
    return (suite, *rest[-3:-2])


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers) if numbers else 0.0
