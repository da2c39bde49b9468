"""Validation of scored groups."""

import math
from collections.abc import Iterator, Sequence

from hermes_lab.envs.refusals import EQUAL, NEARLY_EQUAL
from hermes_lab.errors import ConfigError
from hermes_lab.types import ScoredGroup
from hermes_lab.types.episode import episode_key
from hermes_lab.types.group import GROUP_VERSION

_EQUAL = 1e-9
"""Relative tolerance for equal rewards: a weighted sum has rounding errors."""
LEAST_DIFFERENCE = 0.01
"""What the best and the worst review of a group must differ by: 10 listed tokens at the default cost. GRPO divides by
the deviation of a group, so a name that is a token shorter would otherwise count as much as a rule."""


def normalized_advantages(rewards_G: Sequence[float]) -> list[float]:
    """(reward - mean) / standard deviation over the group; all 0.0 if rewards are equal or there is only one.

    Source: GRPO, arXiv:2402.03300, section 4.1.2; the standard deviation is that of the sample (G - 1), as in TRL.
    """
    count = len(rewards_G)
    if not count or max(rewards_G) - min(rewards_G) <= _EQUAL * max(1.0, *map(abs, rewards_G)):
        return [0.0] * count
    mean = math.fsum(rewards_G) / count
    deviation = math.sqrt(math.fsum((reward - mean) ** 2 for reward in rewards_G) / (count - 1))
    return [(reward - mean) / deviation for reward in rewards_G]


def without_signal(kind: str, rewards_G: Sequence[float]) -> str:
    """Why the rewards of a group teach nothing, `EQUAL` or for reviews `NEARLY_EQUAL`; "" if they do."""
    if not any(normalized_advantages(rewards_G)):
        return EQUAL
    return NEARLY_EQUAL if kind == "review" and max(rewards_G) - min(rewards_G) < LEAST_DIFFERENCE else ""


def validate_group(group: ScoredGroup) -> None:
    """Raises `ConfigError` with the group and its first fault unless

    it has sequences, all axes have length G and all of a sequence length T; masks are 0 or 1 with at least one 1;
    log-probabilities are finite and at most 0 where the mask is 1, and null elsewhere; episode keys match task and
    samples, or in a group of reviews all are the same, and its sequences begin with the same tokens; rewards are finite
    and advantages follow from them; the policy is named.
    """
    if fault := next(_faults(group), ""):
        raise ConfigError(f"{group_name(group)}: {fault}")


def group_name(group: ScoredGroup) -> str:
    """The group's name for messages."""
    return f"group {group.suite}|{group.task_id}|{group.lane}|{group.round} of {group.policy[:12] or 'no policy'}"


def _faults(group: ScoredGroup) -> Iterator[str]:
    if group.v != GROUP_VERSION:
        yield f"v: is {group.v}, and this Hermes Lab writes {GROUP_VERSION}"
    if not group.policy:
        yield "policy: is empty; it names the adapter or the model that sampled"
    axes = {name: len(getattr(group, name)) for name in ("token_ids", "masks", "logprobs", "rewards", "advantages")}
    axes |= {"episodes": len(group.episodes), "samples": len(group.samples)}
    if group.stop_reasons:
        axes["stop_reasons"] = len(group.stop_reasons)
    if len(set(axes.values())) > 1:
        yield f"axis G has several lengths: {', '.join(f'{name} {length}' for name, length in axes.items())}"
    if not group.episodes:
        yield "it has no sequence"
    for number in range(len(group.episodes)):
        for fault in _sequence_faults(group, number):
            yield f"sequence {number}: {fault}"
    if group.kind == "review":
        yield from _fork_faults(group)
    yield from _reward_faults(group)


def _sequence_faults(group: ScoredGroup, number: int) -> Iterator[str]:
    ids_T, mask_T, logprobs_T = group.token_ids[number], group.masks[number], group.logprobs[number]
    if not len(ids_T) == len(mask_T) == len(logprobs_T):
        yield f"has {len(ids_T)} token ids, {len(mask_T)} of mask and {len(logprobs_T)} log-probabilities"
    if any(token < 0 for token in ids_T):
        yield "a token id is below 0"
    if any(sampled not in (0, 1) for sampled in mask_T):
        yield "its mask has something else than 0 and 1"
    if not any(mask_T):
        yield "its mask marks no sampled token, so nothing can be trained"
    for place, (sampled, logprob) in enumerate(zip(mask_T, logprobs_T, strict=True)):
        if not sampled and logprob is not None:
            yield f"token {place} was not sampled, but has the log-probability {logprob:g}; it must be null"
        if sampled and (logprob is None or not math.isfinite(logprob) or logprob > 0):
            yield f"token {place} was sampled, but its log-probability is {logprob}, not a finite number up to 0"
    key = episode_key(group.suite, group.task_id, group.lane, group.round, group.samples[number])
    if group.kind == "review":
        key = f"{key.rpartition('|')[0]}|{group.episodes[number].rpartition('|')[2]}"
    if group.episodes[number] != key:
        yield f"is of episode {group.episodes[number]!r}, but by task and sample of {key!r}"


def _fork_faults(group: ScoredGroup) -> Iterator[str]:
    """What shows that reviews are not of the same finished conversation."""
    for episode in group.episodes:
        if episode != group.episodes[0]:
            yield f"reviews of different episodes, {group.episodes[0]!r} and {episode!r}, are not one group"
    begun: set[int] = set()
    prompts = []
    for sample, ids_T, mask_T in zip(group.samples, group.token_ids, group.masks, strict=True):
        if sample not in begun:  # a later sequence of a review has a rewritten prompt
            begun.add(sample)
            prompts.append(ids_T[: mask_T.index(1)])
    if len(set(prompts)) > 1:
        yield "its reviews begin with different tokens, so they do not continue the same conversation"


def _reward_faults(group: ScoredGroup) -> Iterator[str]:
    if not all(map(math.isfinite, (*group.rewards, *group.advantages))):
        yield "a reward or an advantage is not a finite number"
    first_of = {sample: number for number, sample in reversed(list(enumerate(group.samples)))}
    samples = sorted(first_of)
    wanted = normalized_advantages([group.rewards[first_of[sample]] for sample in samples])
    advantage_of = dict(zip(samples, wanted, strict=True))
    for number, (sample, reward) in enumerate(zip(group.samples, group.rewards, strict=True)):
        if reward != group.rewards[first_of[sample]]:
            yield f"sequence {number}: has another reward than the other ones of its episode"
        expected = advantage_of[sample]
        if not math.isclose(group.advantages[number], expected, rel_tol=1e-6, abs_tol=1e-6):
            yield f"sequence {number}: its advantage is {group.advantages[number]:g}; by the rewards it is {expected:g}"
