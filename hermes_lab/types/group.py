"""The canonical training artifact: the rollouts of one task, scored against each other."""

from typing import Literal

from msgspec import Struct, field

from hermes_lab.types.episode import ModelIdentity

GROUP_VERSION = 2
"""The version of newly written groups; `hermes_lab.envs.groups.read_groups` upgrades older ones."""

GroupKind = Literal["solve", "review"]
"""What the sequences of a group are: rollouts of one task, or reviews of one finished episode."""


class ScoredGroup(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """G sequences of one task under one policy; axis G first, T differs between sequences.

    `masks` is 1 on sampled tokens and 0 elsewhere; `logprobs` is the behaviour policy's natural log-probability where
    the mask is 1, and null elsewhere. `advantages` are the rewards minus the group mean, divided by the group's
    standard deviation (GRPO, arXiv:2402.03300 eq. 3), or all 0.0 if all rewards are equal. `episodes` are the keys of
    the episodes of the sequences, and `samples` the last part of those keys: an episode whose prompt was rewritten on
    the way gives several sequences, but counts once in mean and deviation.

    In a group of the kind `review`, the sequences are reviews of one and the same finished episode
    (`hermes_lab.envs.learning`): `episodes` repeats its key, `samples` numbers the reviews, the mask is 1 on the tokens
    of the review alone, and `stop_reasons` are the reviews'. Groups from before there were kinds are of the kind
    `solve`; a reader from then refuses groups of reviews, whose keys and samples do not match.

    `policy` is the adapter digest (or model name) that sampled all of them; `model` is the full identity, without the
    server's address. `snapshot` is the skill library shown in the prompts, and `config_digest` the configuration of the
    run. `stop_reasons` are those of the episodes (`hermes_lab.types.trajectory.StopReason`): sequences whose reply was
    cut (`length`), withheld or unparsed are included and can be recognised by it; empty in groups from before it was
    recorded. `knowledge` says what the library knows of the task's hidden rules, as in the episodes; empty where no
    environment chose it. `lab` has the versions of this package that ran the episodes; empty in groups from before it
    was recorded. Version 1 did not record `split` (read as ""), `world` (-1), `config_digest` ("") and the provider of
    `model`.
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
    kind: GroupKind = "solve"
    knowledge: str = ""
    lab: tuple[str, ...] = ()
