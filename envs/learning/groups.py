"""Scored groups of learning episodes: reviews of one finished episode, and follow-ups of one task with one library."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from hermes_lab.envs.group_checks import normalized_advantages, validate_group
from hermes_lab.envs.groups import build_groups, labs, sampled_logprobs, weights_of
from hermes_lab.envs.learning.config import ReviewWorth
from hermes_lab.envs.learning.run import LaneOutcome, Reviewed
from hermes_lab.envs.learning.worth import Refused, ReviewValue, reviews_of, values_of
from hermes_lab.envs.refusals import ERRORED
from hermes_lab.errors import ConfigError
from hermes_lab.types import GroupKind, Review, ScoredGroup, TokenBranch


class LearningGroups(NamedTuple):
    """The groups of learning episodes, in the order of the episodes, and the values of all reviews.

    `refused` counts finished tasks without a group of reviews by reason.
    """

    groups: list[ScoredGroup]
    values: list[ReviewValue]
    refused: dict[str, int]


def learning_groups(
    outcomes: Sequence[LaneOutcome], worth: ReviewWorth, kinds: Collection[GroupKind] = ("review", "solve")
) -> LearningGroups:
    """The values, and the groups of these kinds. Raises `ConfigError` for an episode without token ids."""
    groups: list[ScoredGroup] = []
    values: list[ReviewValue] = []
    refused: Counter[str] = Counter()
    for outcome in outcomes:
        for reviewed in outcome.reviewed:
            found = values_of(outcome, reviewed, worth)
            if isinstance(found, Refused):
                refused[found.reason] += 1
                continue
            values += found
            if "review" in kinds:
                groups.append(review_group(reviewed, found))
        if lost := len(outcome.lane.tasks) - len(outcome.reviewed):
            refused[ERRORED] += lost
        if "solve" in kinds:
            groups += solve_groups(outcome)
    return LearningGroups(groups, values, dict(sorted(refused.items())))


def solve_groups(outcome: LaneOutcome) -> Iterator[ScoredGroup]:
    """The repeated follow-ups of a task with one library."""
    episodes = sorted(outcome.followups.values(), key=lambda each: (each.round, each.place, each.sample))
    return build_groups(episodes)


def review_group(reviewed: Reviewed, values: Sequence[ReviewValue]) -> ScoredGroup:
    """The reviews of one finished episode as a group, with the masks of the reviews: the work before them is prompt."""
    work = reviewed.work
    advantages = normalized_advantages([value.reward.value for value in values])
    rows = [
        (value, advantage, review, branch)
        for value, advantage, review in zip(values, advantages, reviews_of(work), strict=True)
        for branch in _branches(work.key, review)
    ]
    group = ScoredGroup(
        kind="review",
        suite=work.suite,
        task_id=work.task_id,
        split=work.task.split,
        world=work.task.world,
        lane=work.lane,
        round=work.round,
        policy=work.model.policy,
        model=weights_of(work),
        snapshot=work.skills.snapshot,
        config_digest=work.config_digest,
        episodes=tuple(work.key for _ in rows),
        samples=tuple(value.fork for value, *_ in rows),
        token_ids=tuple(branch.token_ids for *_, branch in rows),
        masks=tuple(branch.mask for *_, branch in rows),
        logprobs=tuple(sampled_logprobs(branch) for *_, branch in rows),
        rewards=tuple(value.reward.value for value, *_ in rows),
        advantages=tuple(advantage for _, advantage, *_ in rows),
        stop_reasons=tuple(review.trajectory.stop_reason for _, _, review, _ in rows if review.trajectory),
        lab=labs([work]),
    )
    validate_group(group)
    return group


def _branches(key: str, review: Review) -> Iterable[TokenBranch]:
    if review.trajectory is None or not review.trajectory.branches:
        raise ConfigError(f"{key}: a review has no token ids; run with model.token_ids=true on vLLM")
    return review.trajectory.branches
