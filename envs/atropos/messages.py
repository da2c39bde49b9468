"""Messages of the trajectory server, compatible with atroposlib 0.4.0."""

from typing import Any

from msgspec import Struct

MASKED = -100
"""Value in `masks` of tokens without a loss: the ignore index of PyTorch's cross entropy."""
MASKED_LOGPROB = 1.0
"""Value in `inference_logprobs` of these tokens: impossible as a log-probability, so trainers can detect it."""


class RegisterEnv(Struct, frozen=True):
    """`POST /register-env`. A `desired_name` of null is rejected."""

    max_token_length: int
    desired_name: str
    weight: float
    group_size: int
    min_batch_allocation: float | None = None


class Registered(Struct, frozen=True):
    """The response. If `status` is not `success`, the trainer has not started and there are no other fields."""

    status: str
    env_id: int = -1
    wandb_name: str = ""
    checkpoint_dir: str | None = ""
    starting_step: int = 0
    checkpoint_interval: int = 0
    num_steps: int = 0


class Info(Struct, frozen=True):
    """`GET /info`: the trainer's settings; -1 if it has not registered."""

    batch_size: int = -1
    max_token_len: int = -1


class WandbInfo(Struct, frozen=True):
    """`GET /wandb_info`: the trainer's wandb project and group."""

    group: str | None = None
    project: str | None = None


class EnvId(Struct, frozen=True):
    """The body of `GET /status-env` and `POST /disconnect-env`."""

    env_id: int


class Status(Struct, frozen=True):
    """`GET /status-env`. `queue_size` counts groups of this environment's size, including those of other environments
    that a batch may use instead; `max_group_size` is the largest in the queue, of any environment."""

    current_step: int
    queue_size: int
    unallocated_fraction: float = 1.0
    self_queue_size: int = 0
    max_group_size: int = 1
    env_weight: float = 1.0


class ScoredData(Struct, frozen=True):
    """`POST /scored_data`: one group. Axis G first; T differs from sequence to sequence.

    `masks` has the id of trained tokens and `MASKED` elsewhere; `inference_logprobs` the sampler's log-probability
    (nats) and `MASKED_LOGPROB`. The server drops unknown fields, so extra data goes into `overrides` (per sequence) and
    `group_overrides`.
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
    """The response, also of `POST /scored_data_list`. `buffered`: a group does not have the registered size and waits
    for others to fill up."""

    status: str
    buffered: int = 0


class Disconnected(Struct, frozen=True):
    """The response to `POST /disconnect-env`."""

    status: str
    error: str = ""


class Latest(Struct, frozen=True):
    """`GET /latest_example`: the last posted group, of which only this field is read."""

    tokens: tuple[tuple[int, ...], ...] = ()
