"""The canonical training artifact: the rollouts of one task, scored against each other."""

from msgspec import Struct


class ScoredGroup(Struct, frozen=True, kw_only=True):
    """G sequences of one task under one policy; axis G first, T differs from sequence to sequence.

    `masks` is 1 on sampled tokens and 0 elsewhere; `logprobs` is the behaviour policy's natural log-probability where
    the mask is 1, and 0.0 elsewhere. `advantages` are rewards less their group mean, divided by the group's standard
    deviation (GRPO, arXiv:2402.03300 eq. 3), or all 0.0 where every reward is equal. `episodes` are the keys of the
    episodes that the sequences came from, and `policy` the adapter digest (or model name) that sampled them.
    """

    v: int = 1
    suite: str
    task_id: str
    lane: str
    round: int
    policy: str
    snapshot: str
    episodes: tuple[str, ...]
    token_ids: tuple[tuple[int, ...], ...]
    masks: tuple[tuple[int, ...], ...]
    logprobs: tuple[tuple[float, ...], ...]
    rewards: tuple[float, ...]
    advantages: tuple[float, ...]
