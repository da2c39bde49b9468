"""The canonical training artifact: the rollouts of one task, scored against each other."""

from msgspec import Struct, field

from hermes_lab.types.episode import ModelIdentity

GROUP_VERSION = 2
"""The version of newly written groups; `hermes_lab.envs.groups.read_groups` upgrades older ones."""


class ScoredGroup(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """G sequences of one task under one policy; axis G first, T differs between sequences.

    `masks` is 1 on sampled tokens and 0 elsewhere; `logprobs` is the behaviour policy's natural log-probability where
    the mask is 1, and null elsewhere. `advantages` are the rewards minus the group mean, divided by the group's
    standard deviation (GRPO, arXiv:2402.03300 eq. 3), or all 0.0 if all rewards are equal. `episodes` are the keys of
    the episodes of the sequences, and `samples` the last part of those keys: an episode whose prompt was rewritten on
    the way gives several sequences, but counts once in mean and deviation.

    `policy` is the adapter digest (or model name) that sampled all of them; `model` is the full identity, without the
    server's address. `snapshot` is the skill library shown in the prompts, and `config_digest` the configuration of the
    run. `stop_reasons` are those of the episodes (`hermes_lab.types.trajectory.StopReason`): sequences whose reply was
    cut (`length`), withheld or unparsed are included and can be recognised by it; empty in groups from before it was
    recorded. `knowledge` says what the library knows of the task's hidden rules, as in the episodes; empty where no
    environment chose it. Version 1 did not record `split` (read as ""), `world` (-1), `config_digest` ("") and the
    provider of `model`.
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
    knowledge: str = ""
