"""Sampled sequences in the format of a TRL `rollout_func`."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from hermes_lab.types import ScoredGroup


class Sequences(NamedTuple):
    """N sequences with completions of variable length C. Field names are TRL's."""

    prompt_ids: list[list[int]]
    completion_ids: list[list[int]]
    env_mask: list[list[int]]
    logprobs: list[list[float]]


def split(sampled: Iterable[tuple[Sequence[int], Sequence[int], Sequence[float | None]]]) -> Sequences:
    """Splits token ids, mask and log-probabilities of whole sequences at the first sampled token.

    Everything before it is the prompt, the rest the completion; tool output and template tokens in it have `env_mask`
    0. TRL makes tensors of the log-probabilities, so these tokens have 0.0.
    """
    made = Sequences([], [], [], [])
    for ids_T, mask_T, logprobs_T in sampled:
        start = mask_T.index(1)
        made.prompt_ids.append(list(ids_T[:start]))
        made.completion_ids.append(list(ids_T[start:]))
        made.env_mask.append(list(mask_T[start:]))
        pairs = zip(mask_T[start:], logprobs_T[start:], strict=True)
        made.logprobs.append([logprob if sampled and logprob is not None else 0.0 for sampled, logprob in pairs])
    return made


def rollout_columns(groups: Sequence[ScoredGroup]) -> dict[str, list[Any]]:
    """The sequences of `groups`, in order, as returned by a `rollout_func`.

    `reward` and `advantage` are passed to the trainer's reward functions.
    """
    rows = [row for group in groups for row in zip(group.token_ids, group.masks, group.logprobs, strict=True)]
    return {
        **split(rows)._asdict(),
        "reward": [reward for group in groups for reward in group.rewards],
        "advantage": [advantage for group in groups for advantage in group.advantages],
    }
