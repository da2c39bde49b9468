"""The canonical training artifact: the rollouts of one task, scored against each other."""

from msgspec import Struct, field

from hermes_lab.types.episode import ModelIdentity

GROUP_VERSION = 2
"""Of the group that is written; `hermes_lab.envs.groups.read_groups` upgrades older ones."""


class ScoredGroup(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """G sequences of one task under one policy; axis G first, T differs from sequence to sequence.

    `masks` is 1 on sampled tokens and 0 elsewhere; `logprobs` is the behaviour policy's natural log-probability where
    the mask is 1, and null elsewhere. `advantages` are rewards less their group mean, divided by the group's standard
    deviation (GRPO, arXiv:2402.03300 eq. 3), or all 0.0 where every reward is equal. `episodes` are the keys of the
    episodes that the sequences came from, and `samples` the last part of those keys: an episode whose prompt was
    rewritten on the way gives several sequences, and weighs once in mean and deviation.

    `policy` is the adapter digest (or model name) that sampled them all; `model` says the same in full, without the
    address it was served at. `snapshot` is the skill library that the prompts showed, and `config_digest` the
    configuration of the run. `stop_reasons` are those of the episodes (`hermes_lab.types.trajectory.StopReason`): a
    sequence whose reply was cut (`length`), withheld or not read is in the group, and marked by it; empty in a group of
    before this was kept. What version 1 did not record is `split` "", `world` -1, `config_digest` "" and a `model`
    without provider.
    """

    v: int = field(default_factory=lambda: GROUP_VERSION)
    suite: str
    task_id: str
    split: str
    world: int
    lane: str
    round: int
    policy: str
    model: ModelIdentity
    snapshot: str
    config_digest: str
    episodes: tuple[str, ...]
    samples: tuple[int, ...]
    token_ids: tuple[tuple[int, ...], ...]
    masks: tuple[tuple[int, ...], ...]
    logprobs: tuple[tuple[float | None, ...], ...]
    rewards: tuple[float, ...]
    advantages: tuple[float, ...]
    stop_reasons: tuple[str, ...] = ()
