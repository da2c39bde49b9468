"""Converts the episodes of a task to a group of the protocol, or a refusal."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from hermes_lab.envs.atropos.config import EnvSection
from hermes_lab.envs.atropos.messages import MASKED, MASKED_LOGPROB, ScoredData
from hermes_lab.envs.group_checks import without_signal
from hermes_lab.envs.groups import build_groups, one_sequence_each
from hermes_lab.envs.refusals import CHANGED, FAILED, NO_REPLY, NO_REWARD
from hermes_lab.models.wires.chat import wire
from hermes_lab.types import Episode, ScoredGroup

Conversation = tuple[dict[str, Any], ...]
"""Turns as they are sent to an endpoint."""


class Refused(NamedTuple):
    """Why episodes do not form a group."""

    reason: str


def make_group(episodes: Sequence[Episode], limits: EnvSection, longest: int) -> ScoredGroup | Refused:
    """The group of `limits.group_size` sequences from these episodes, none longer than `longest` tokens.

    Groups are refused as a whole: a group without its longest rollouts would favour short ones.
    """
    if any(episode.status == "errored" for episode in episodes) or len(episodes) != limits.group_size:
        return Refused(FAILED)
    if any(episode.reward is None for episode in episodes):
        return Refused(NO_REWARD)
    if any(not episode.trajectory or not episode.trajectory.steps for episode in episodes):
        return Refused(NO_REPLY)
    groups = list(build_groups(episodes))
    if len(groups) != 1:
        return Refused(CHANGED)
    return fitting(groups[0], limits, longest)


def fitting(group: ScoredGroup, limits: EnvSection, longest: int) -> ScoredGroup | Refused:
    """The group with one sequence per member, or why the server does not get it."""
    # The server buffers groups of another size and merges them with other environments' groups.
    group = one_sequence_each(group)
    if max(map(len, group.token_ids)) > longest:
        return Refused(f"longer than {longest} tokens")
    if limits.drop_equal_scores and limits.group_size > 1 and (why := without_signal(group.kind, group.rewards)):
        return Refused(why)
    return group


def scored_data(group: ScoredGroup, episodes: Sequence[Episode], *, messages: bool) -> ScoredData:
    """The group in the server's format. Lengths were checked by `make_group`."""
    return posted(group, list(map(_sequence, episodes)), list(map(conversation, episodes)) if messages else None)


def posted(
    group: ScoredGroup, overrides: Sequence[dict[str, Any]], messages: Sequence[Conversation] | None
) -> ScoredData:
    """The group in the server's format, with the fields of each sequence."""
    return ScoredData(
        tokens=group.token_ids,
        masks=tuple(
            tuple(token if on else MASKED for token, on in zip(ids_T, mask_T, strict=True))
            for ids_T, mask_T in zip(group.token_ids, group.masks, strict=True)
        ),
        scores=group.rewards,
        inference_logprobs=tuple(
            tuple(MASKED_LOGPROB if logprob is None else logprob for logprob in logprobs_T)
            for logprobs_T in group.logprobs
        ),
        overrides=tuple(overrides),
        group_overrides={
            "kind": group.kind,
            "suite": group.suite,
            "task": group.task_id,
            "split": group.split,
            "world": group.world,
            "policy": group.policy,
            "snapshot": group.snapshot,
            "knowledge": group.knowledge,
            "config_digest": group.config_digest,
        },
        messages=None if messages is None else tuple(messages),
    )


def _sequence(episode: Episode) -> dict[str, Any]:
    return {
        "episode": episode.key,
        "policy": episode.model.policy,
        "success": episode.success,
        "stop_reason": episode.trajectory.stop_reason if episode.trajectory else "",
        "terms": dict(episode.reward.terms) if episode.reward else {},
    }


def conversation(episode: Episode) -> Conversation:
    """The turns as the model saw them."""
    trajectory = episode.trajectory
    return tuple(wire(trajectory.messages, trajectory.tool_format)) if trajectory else ()
