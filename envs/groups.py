"""Scored groups: the rollouts of one task under one policy, with the tokens that the sampler returned."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from hermes_lab.errors import ConfigError
from hermes_lab.types import Episode, ScoredGroup


def build_groups(episodes: Iterable[Episode]) -> Iterator[ScoredGroup]:
    """Groups scored episodes by task, lane, round, policy and library snapshot.

    An episode whose prompt was rewritten on the way has several branches; each is a sequence of its own with the
    episode's reward. Episodes that are errored or unscored have no reward,
    and those without a reply no tokens: they are left out. Raises `ConfigError` where an
    episode has no token ids, since tokenising its text again would train on tokens that nobody sampled.
    """
    groups: dict[tuple[object, ...], list[Episode]] = defaultdict(list)
    for episode in episodes:
        if episode.reward is None or episode.trajectory is None:
            continue
        if not episode.trajectory.steps:
            continue
        if not episode.trajectory.branches:
            raise ConfigError(f"{episode.key}: has no token ids; run with model.token_ids=true on vLLM")
        groups[_policy_of(episode)].append(episode)
    for members in groups.values():
        yield _group(members)


def _policy_of(episode: Episode) -> tuple[object, ...]:
    return (
        episode.suite,
        episode.task_id,
        episode.lane,
        episode.round,
        episode.model,
        episode.skills.snapshot,
    )


def _group(members: Sequence[Episode]) -> ScoredGroup:
    first = members[0]
    advantages_E = normalized_advantages([episode.reward.value for episode in members if episode.reward])
    rows = [
        (episode, advantage, branch)
        for episode, advantage in zip(members, advantages_E, strict=True)
        for branch in (episode.trajectory.branches if episode.trajectory else ())
    ]
    group = ScoredGroup(
        suite=first.suite,
        task_id=first.task_id,
        lane=first.lane,
        round=first.round,
        policy=first.model.adapter_digest or first.model.adapter or first.model.name,
        snapshot=first.skills.snapshot,
        episodes=tuple(episode.key for episode, _, _ in rows),
        token_ids=tuple(branch.token_ids for _, _, branch in rows),
        masks=tuple(branch.mask for _, _, branch in rows),
        logprobs=tuple(branch.logprobs for _, _, branch in rows),
        rewards=tuple(episode.reward.value for episode, _, _ in rows if episode.reward),
        advantages=tuple(advantage for _, advantage, _ in rows),
    )
    validate_group(group)
    return group


def normalized_advantages(rewards_G: Sequence[float]) -> list[float]:
    """(reward - mean) / standard deviation over the group, all 0.0 where the rewards are equal.

    Source: GRPO, arXiv:2402.03300, section 4.1.2; the standard deviation is that of the sample (G - 1), as in TRL.
    """
    count = len(rewards_G)
    mean = math.fsum(rewards_G) / count
    variance = math.fsum((reward - mean) ** 2 for reward in rewards_G) / max(count - 1, 1)
    if variance == 0:
        return [0.0] * count
    return [(reward - mean) / math.sqrt(variance) for reward in rewards_G]


def validate_group(group: ScoredGroup) -> None:
    """Raises `ValueError` where the axes of a group disagree, or a mask marks nothing to train on."""
    sizes = {
        len(axis)
        for axis in (
            group.episodes,
            group.token_ids,
            group.masks,
            group.logprobs,
            group.rewards,
            group.advantages,
        )
    }
    if len(sizes) != 1:
        raise ValueError(f"{group.task_id}: axis G has several lengths: {sorted(sizes)}")
    for ids_T, mask_T, logprobs_T in zip(group.token_ids, group.masks, group.logprobs, strict=True):
        if not len(ids_T) == len(mask_T) == len(logprobs_T):
            raise ValueError(f"{group.task_id}: ids, mask and log-probabilities have different lengths")
        if not any(mask_T):
            raise ValueError(f"{group.task_id}: a sequence in which no token was sampled")
        if any(logprob > 0 for logprob in logprobs_T):
            raise ValueError(f"{group.task_id}: a log-probability above 0")
