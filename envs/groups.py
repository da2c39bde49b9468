"""Scored groups: rollouts of one task under one policy, with the sampler's tokens.

`group_checks` validates groups, `group_files` reads and writes them.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from hermes_lab.envs.group_checks import normalized_advantages, validate_group
from hermes_lab.envs.group_files import read_groups, write_groups
from hermes_lab.errors import ConfigError
from hermes_lab.types import Episode, ModelIdentity, ScoredGroup, TokenBranch

__all__ = [
    "build_groups",
    "normalized_advantages",
    "one_sequence_each",
    "read_groups",
    "sampled_logprobs",
    "validate_group",
    "weights_of",
    "write_groups",
]


def build_groups(episodes: Iterable[Episode]) -> Iterator[ScoredGroup]:
    """Groups scored episodes by task, world, lane, round, model, library snapshot and configuration.

    An episode whose prompt was rewritten has several branches, each a sequence with the episode's reward. Errored and
    unscored episodes, and those without a reply, are left out instead of getting a reward of 0. Episodes with a
    truncated, filtered or unparsed reply are kept with their reward; `stop_reasons` marks them. Raises `ConfigError`
    for an episode without token ids, since retokenised text may differ from the sampled tokens.
    """
    groups: dict[tuple[object, ...], list[Episode]] = defaultdict(list)
    for episode in episodes:
        if episode.reward is None or episode.trajectory is None:
            continue
        if not episode.trajectory.steps:
            continue
        if not episode.trajectory.branches:
            raise ConfigError(f"{episode.key}: has no token ids; run with model.token_ids=true on vLLM")
        groups[_origin(episode)].append(episode)
    for members in groups.values():
        yield _group(members)


def one_sequence_each(group: ScoredGroup) -> ScoredGroup:
    """Keeps one sequence per rollout or review, if its prompt was rewritten.

    Of a rollout it is the one with the most sampled tokens, and the last of several such ones. Of a review it is the
    first: later ones do not begin with the conversation that all reviews of the group continue. The group keeps all its
    members, and so its mean; tokens of dropped sequences have no gradient.
    """
    kept: dict[int, int] = {}
    for place, (sample, mask_T) in enumerate(zip(group.samples, group.masks, strict=True)):
        longest = group.kind == "solve" and sample in kept and sum(mask_T) >= sum(group.masks[kept[sample]])
        if sample not in kept or longest:
            kept[sample] = place
    if len(kept) == len(group.episodes):
        return group
    rows = ["episodes", "samples", "token_ids", "masks", "logprobs", "rewards", "advantages"]
    rows += ["stop_reasons"] if group.stop_reasons else []
    chosen = {row: tuple(getattr(group, row)[place] for place in kept.values()) for row in rows}
    return msgspec.structs.replace(group, **chosen)


def _origin(episode: Episode) -> tuple[object, ...]:
    """The fields shared by the rollouts of a group."""
    return (
        episode.suite,
        episode.task_id,
        episode.task.split,
        episode.task.world,
        episode.lane,
        episode.round,
        weights_of(episode),
        episode.skills.snapshot,
        episode.config_digest,
    )


def weights_of(episode: Episode) -> ModelIdentity:
    """The model identity without its address, since a restarted server may have another port."""
    return msgspec.structs.replace(episode.model, base_url="")


def labs(members: Iterable[Episode]) -> tuple[str, ...]:
    """The versions of this package that ran the episodes."""
    return tuple(sorted({episode.lab for episode in members if episode.lab}))


def _group(members: Sequence[Episode]) -> ScoredGroup:
    first = members[0]
    if len({episode.sample for episode in members}) < len(members):
        raise ConfigError(f"{first.key}: duplicate sample of this task; build the groups of each run separately")
    advantages_E = normalized_advantages([episode.reward.value for episode in members if episode.reward])
    rows = [
        (episode, advantage, branch)
        for episode, advantage in zip(members, advantages_E, strict=True)
        for branch in (episode.trajectory.branches if episode.trajectory else ())
    ]
    group = ScoredGroup(
        suite=first.suite,
        task_id=first.task_id,
        split=first.task.split,
        world=first.task.world,
        lane=first.lane,
        round=first.round,
        policy=first.model.policy,
        model=weights_of(first),
        snapshot=first.skills.snapshot,
        config_digest=first.config_digest,
        episodes=tuple(episode.key for episode, _, _ in rows),
        samples=tuple(episode.sample for episode, _, _ in rows),
        token_ids=tuple(branch.token_ids for _, _, branch in rows),
        masks=tuple(branch.mask for _, _, branch in rows),
        logprobs=tuple(sampled_logprobs(branch) for _, _, branch in rows),
        rewards=tuple(episode.reward.value for episode, _, _ in rows if episode.reward),
        advantages=tuple(advantage for _, advantage, _ in rows),
        stop_reasons=tuple(episode.trajectory.stop_reason for episode, _, _ in rows if episode.trajectory),
        knowledge=first.skills.knowledge,
        lab=labs(members),
    )
    validate_group(group)
    return group


def sampled_logprobs(branch: TokenBranch) -> tuple[float | None, ...]:
    """Log-probabilities of sampled tokens, None elsewhere (the branch has 0.0 there, which would mean certainty)."""
    if len(branch.logprobs) != len(branch.mask):
        return branch.logprobs  # validation reports it
    return tuple(logprob if on else None for logprob, on in zip(branch.logprobs, branch.mask, strict=True))
