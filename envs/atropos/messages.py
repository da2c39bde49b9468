"""The protocol of the trajectory server, as atroposlib 0.4.0 speaks it."""

from typing import Any

from msgspec import Struct

MASKED = -100
"""Stands in `masks` for a token that is not trained: the index that PyTorch's cross entropy ignores."""
MASKED_LOGPROB = 1.0
"""Stands in `inference_logprobs` there: no probability has this logarithm, so trainers tell it from a value."""


class RegisterEnv(Struct, frozen=True):
    """`POST /register-env`. A `desired_name` of null would be refused."""

    max_token_length: int
    desired_name: str
    weight: float
    group_size: int
    min_batch_allocation: float | None = None


class Registered(Struct, frozen=True):
    """Its answer. `status` is `success`, or says that the trainer is still awaited: then nothing else is there."""

    status: str
    env_id: int = -1
    wandb_name: str = ""
    checkpoint_dir: str | None = ""
    starting_step: int = 0
    checkpoint_interval: int = 0
    num_steps: int = 0


class Info(Struct, frozen=True):
    """`GET /info`: what the trainer registered with; -1 where it did not."""

    batch_size: int = -1
    max_token_len: int = -1


class WandbInfo(Struct, frozen=True):
    """`GET /wandb_info`: where the trainer logs to."""

    group: str | None = None
    project: str | None = None


class EnvId(Struct, frozen=True):
    """The body of `GET /status-env` and `POST /disconnect-env`."""

    env_id: int


class Status(Struct, frozen=True):
    """`GET /status-env`. `queue_size` counts groups of this environment's size, those of others that a batch may take
    instead included; `max_group_size` is the largest in the queue, of any environment."""

    current_step: int
    queue_size: int
    unallocated_fraction: float = 1.0
    self_queue_size: int = 0
    max_group_size: int = 1
    env_weight: float = 1.0


class ScoredData(Struct, frozen=True):
    """`POST /scored_data`: one group. Axis G first; T differs from sequence to sequence.

    `masks` has the token's id where it is trained, and `MASKED` elsewhere; `inference_logprobs` the sampler's natural
    log-probability, and `MASKED_LOGPROB`. Fields that the server does not know it drops: what else is to be said goes
    into `overrides`, of each sequence, and `group_overrides`.
    """

    tokens: tuple[tuple[int, ...], ...]
    masks: tuple[tuple[int, ...], ...]
    scores: tuple[float, ...]
    inference_logprobs: tuple[tuple[float, ...], ...]
    overrides: tuple[dict[str, Any], ...]
    group_overrides: dict[str, Any]
    messages: tuple[tuple[dict[str, Any], ...], ...] | None = None
    env_id: int | None = None


class Posted(Struct, frozen=True):
    """Its answer, and that of `POST /scored_data_list`. `buffered`: a group has another size than was registered, and
    waits for others to add up with."""

    status: str
    buffered: int = 0


class Disconnected(Struct, frozen=True):
    """The answer to `POST /disconnect-env`."""

    status: str
    error: str = ""


class Latest(Struct, frozen=True):
    """`GET /latest_example`: the group that was posted last, of which only this is read."""

    tokens: tuple[tuple[int, ...], ...] = ()
