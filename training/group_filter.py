"""Filters groups of rollouts for training and counts refusals by reason."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from hermes_lab.envs.group_checks import without_signal
from hermes_lab.envs.groups import one_sequence_each
from hermes_lab.types import ScoredGroup


class Rules(NamedTuple):
    """The criteria for a group.

    `policies` are the adapters (or the base model) that may have sampled it; `held_out` are keys of episodes with
    held-out tasks.
    """

    group_size: int
    max_tokens: int
    policies: Collection[str]
    splits: Collection[str]
    held_out: frozenset[str] = frozenset()


class FilteredGroups(NamedTuple):
    """The groups to train on, in task order, and refusals by reason.

    `left_out` counts sequences of these groups that are not trained on, see
    `hermes_lab.envs.groups.one_sequence_each`."""

    groups: list[ScoredGroup]
    refused: dict[str, int]
    left_out: int


def filter_groups(groups: Iterable[ScoredGroup], rules: Rules) -> FilteredGroups:
    """Keeps only complete groups, since a missing rollout or turn would change the advantage baseline."""
    usable: list[ScoredGroup] = []
    refused: Counter[str] = Counter()
    left_out = 0
    for group in groups:
        single = one_sequence_each(group)
        reason = refusal(single, rules)
        if reason is None:
            usable.append(single)
            left_out += len(group.episodes) - len(single.episodes)
        else:
            refused[reason] += 1
    usable.sort(key=lambda group: (group.lane, group.task_id))
    return FilteredGroups(usable, dict(sorted(refused.items())), left_out)


def with_missing(refused: Mapping[str, int], missing: Mapping[str, int]) -> dict[str, int]:
    """Refusals by reason together with the groups that there are not."""
    return dict(sorted((Counter(refused) + Counter(missing)).items()))


def refusal(group: ScoredGroup, rules: Rules) -> str | None:
    """Why a group (one sequence per rollout) is not trained on, or None."""
    if group.policy not in rules.policies:
        return "of another policy"
    if group.split not in rules.splits or not rules.held_out.isdisjoint(group.episodes):
        return "held out"
    if len(group.episodes) < rules.group_size:
        return "with errored rollouts"
    if max(map(len, group.token_ids)) > rules.max_tokens:
        return "longer than max_token_length"
    why = without_signal(group.kind, group.rewards)
    return f"with {why}" if why else None
