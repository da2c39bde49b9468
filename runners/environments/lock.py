"""The configuration of an environment with a lock file."""

from collections.abc import Sequence
from pathlib import Path

import yaml

from hermes_lab.envs.atropos.config import EnvConfig, load_env_config
from hermes_lab.errors import ConfigError
from hermes_lab.training.lock import HOW_TO_CHANGE, load_lock, locked_overrides, locked_value
from hermes_lab.training.lock_enforcement import (
    refuse_environment,
    refuse_other_sampling,
    refuse_other_values,
    refuse_server_options,
)

_ENV_FIELDS = {
    "env.group_size": "grpo.group_size",
    "env.max_token_length": "max_token_length",
    "env.weight": "grpo.inference_weight",
    "env.max_batches_offpolicy": "grpo.max_batches_offpolicy",
    "run.concurrency": "grpo.max_num_workers",
    "agent.max_seconds": "grpo.worker_timeout",
    "model.timeout": "grpo.worker_timeout",
    "model.base_url": "rollout_server_url",
    "model.name": "base_model",
}


def load_locked(sources: Sequence[str], lock: Path | None) -> EnvConfig:
    """Like `load_env_config`, with the values of the lock file if one is given.

    Raises `ConfigError` with the field, its locked value and the fix if a source sets a locked field to another value.
    """
    if lock is None:
        return load_env_config(sources)
    locked = load_lock(lock)
    decided = {name: locked_value(locked, field) for name, field in _ENV_FIELDS.items()} | locked_overrides(locked)
    if locked.reviews:
        decided["env.reviews"] = locked.reviews.model_dump(mode="json")
    refuse_environment(locked)
    own_server: dict[str, list[str]] = {"model.server.args": []}
    names = _ENV_FIELDS | {"env.reviews": "reviews"} | dict.fromkeys(own_server, "base_model")
    refuse_other_values(sources, str(lock), decided | own_server, names)
    config = load_env_config(sources)
    refuse_server_options(config, str(lock))
    refuse_other_sampling(config, str(lock))
    if config.env.objective != "solve" and locked.reviews is None:
        raise ConfigError(
            f"env.objective: {config.env.objective} needs a lock with a section reviews, which says what a review is "
            f"paid, and {lock} has none; {HOW_TO_CHANGE}"
        )
    if config.model.provider == "vllm":
        raise ConfigError(
            f"model.provider: vllm starts its own server, but {lock} locks the rollout server to "
            f"{locked.rollout_server_url}; start that one with `hermes-lab serve` and use openai"
        )
    return load_env_config(
        [*sources, *(f"{name}={yaml.safe_dump(value, default_flow_style=True)}" for name, value in decided.items())]
    )
