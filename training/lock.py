"""The lock file: training hyperparameters that no run, agent or override can change.

A lock is a YAML file that ends with the digest of its values. Only a person creates one, with `hermes-lab train lock`;
training rejects a file whose digest does not match.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import Field, ValidationInfo, field_validator

from hermes_lab.config.schema import Section
from hermes_lab.config.sources import load_section
from hermes_lab.config.units import Unit
from hermes_lab.errors import ConfigError
from hermes_lab.models.cards import LOCK_KEY, LOCKED_KEY, values_digest
from hermes_lab.records import write_atomic

HOW_TO_CHANGE = "a person makes a new lock with `hermes-lab train lock SRC -o LOCK`"

RUN_FIELDS = {
    "model.base_url": "rollout_server_url",
    "model.sampling.temperature": "grpo.temperature",
    "model.sampling.max_tokens": "grpo.max_reply_tokens",
    "run.samples": "grpo.group_size",
    "run.concurrency": "grpo.max_num_workers",
    "agent.max_seconds": "grpo.worker_timeout",
}
"""Fields of a GRPO rollout run that the lock sets: the run's field and the locked field."""

Positive = Annotated[int, Field(gt=0)]


class GrpoLock(Section):
    """What decides a GRPO training besides the fields that every training has."""

    group_size: Annotated[int, Field(ge=2)]
    """Rollouts of one task, scored against each other."""
    groups_per_round: Positive
    """Tasks of one round."""
    steps_per_round: Positive
    """Optimiser steps on the groups of one round; there are total_steps / steps_per_round rounds."""
    temperature: Annotated[float, Field(gt=0)]
    """Of sampling, from the whole distribution (top_p 1). 1.0 keeps the sampler's log-probabilities the policy's."""
    max_reply_tokens: Annotated[Positive, Unit("tokens")]
    """Completion tokens of one reply."""
    clip_epsilon: Annotated[float, Field(gt=0)]
    """The ratio of new to old probability is clipped to 1 - epsilon and 1 + epsilon."""
    max_batches_offpolicy: Annotated[int, Field(ge=0)]
    """Rounds that a group's policy may be older than the one that is trained; 0: on-policy only."""
    max_num_workers: Positive
    """Rollouts at once."""
    worker_timeout: Annotated[float, Field(gt=0), Unit("seconds")]
    """Seconds of one rollout."""
    steps_per_eval: Annotated[int, Field(ge=0)]
    """Optimiser steps between two held-out evaluations; 0: none."""
    eval_limit_ratio: Annotated[float, Field(gt=0, le=1)]
    """An evaluation takes this share of a round's number of rollouts, each of another task."""
    inference_weight: Annotated[float, Field(gt=0)]
    """This environment's weight among those of an Atropos server."""


class PreferenceLock(Section):
    """What decides a preference training (DPO, arXiv:2305.18290) besides the fields that every training has."""

    beta: Annotated[float, Field(gt=0)]
    """How strongly the policy is held to the model that it began from."""


class LockedConfig(Section):
    """What decides a training. Nothing has a default: a lock says everything itself.

    `grpo` and `preference` are there for trainings of that kind; an absent one is no part of the digest.
    """

    base_model: str
    """The weights under the adapter: `packaged`, a folder, or a hub id."""
    tokenizer: str
    """Where the tokenizer and its chat template come from: `packaged`, a folder, or a hub id."""
    rollout_server_url: str
    """The server that samples rollouts for training. SFT reads logged episodes, and samples none."""
    max_token_length: Annotated[Positive, Unit("tokens")]
    """Tokens of a training row; a longer row is refused, never cut."""
    learning_rate: Annotated[float, Field(gt=0)]
    """The peak, after a linear warm-up and before a cosine decay to 0."""
    warmup_steps: Annotated[int, Field(ge=0), Unit("steps")]
    """Steps of the warm-up."""
    total_steps: Annotated[Positive, Unit("steps")]
    """Optimiser steps."""
    batch_size: Positive
    """Rows of one optimiser step."""
    lora_rank: Positive
    """r of LoRA (arXiv:2106.09685)."""
    lora_alpha: Positive
    """alpha of LoRA; the update is scaled by alpha / r."""
    lora_target: str
    """The modules that are adapted, as PEFT names them; `all-linear` is every linear layer but the head."""
    save_checkpoint_interval: Annotated[Positive, Unit("steps")]
    """Steps between two checkpoints; a killed training resumes from the last one."""
    seed: int
    """Draws the adapter's initial weights and the order of rows."""
    use_wandb: bool
    """Log to Weights & Biases beside the JSON Lines that are always written."""
    grpo: GrpoLock | None = None
    """GRPO only."""
    preference: PreferenceLock | None = None
    """Preference training only."""

    @field_validator("grpo")
    @classmethod
    def _whole_rounds(cls, grpo: GrpoLock | None, info: ValidationInfo) -> GrpoLock | None:
        steps = info.data.get("total_steps", 0)
        if grpo and steps % grpo.steps_per_round:
            raise ValueError(f"total_steps is {steps}, no multiple of steps_per_round {grpo.steps_per_round}")
        return grpo

    def content(self) -> dict[str, Any]:
        """The values as JSON, without absent sections: what the digest is of and what a card holds."""
        return self.model_dump(mode="json", exclude_none=True)


class LockFile(LockedConfig):
    """A lock file: the values and their digest."""

    digest: str = ""


def lock_digest(locked: LockedConfig) -> str:
    """sha256 of the values as JSON with sorted keys; comments and order in the file do not count."""
    return values_digest(locked.content())


def lock_metadata(locked: LockedConfig) -> dict[str, str]:
    """The lock's metadata in an adapter's safetensors file; `check_card` reads it."""
    return {LOCK_KEY: lock_digest(locked), LOCKED_KEY: json.dumps(locked.content(), sort_keys=True)}


def load_lock(path: Path) -> LockedConfig:
    """Reads a lock. Raises `ConfigError` if a value is missing, unknown or was edited."""
    locked, digest = _read(path)
    if lock_digest(locked) != digest:
        problem = "a locked field was changed by hand: its digest differs" if digest else "it has no digest"
        raise ConfigError(f"{path}: {problem}; {HOW_TO_CHANGE}")
    return locked


def write_lock(source: Path, out: Path) -> str:
    """Creates the lock `out` from the values in `source`, which may be an edited lock. Returns its digest.

    Raises `ConfigError` if `out` exists: locks are never replaced.
    """
    locked, _ = _read(source)
    if out.exists():
        raise ConfigError(f"{out}: exists, and a lock is never overwritten; give another file")
    digest = lock_digest(locked)
    lines = ["# Locked: training refuses this file after a change by hand.", f"# {HOW_TO_CHANGE}."]
    write_atomic(out, "\n".join([*lines, *_fields(locked), "", f"digest: {digest}", ""]))
    return digest


def locked_overrides(locked: LockedConfig) -> dict[str, Any]:
    """The configuration fields of a GRPO rollout run that the lock sets, with their values.

    Raises `ConfigError` if the lock has no GRPO section.
    """
    return {name: locked_value(locked, field) for name, field in RUN_FIELDS.items()} | {"model.sampling.top_p": 1.0}


def locked_value(locked: LockedConfig, field: str) -> Any:
    """The value of a field such as `grpo.temperature`. Raises `ConfigError` if the lock has no such section."""
    section, _, inner = field.rpartition(".")
    within = getattr(locked, section) if section else locked
    if within is None:
        raise ConfigError(f"lock: it has no section {section}, which holds {field}; {HOW_TO_CHANGE}")
    return getattr(within, inner)


def _fields(section: Section, indent: str = "") -> Iterator[str]:
    """YAML lines of a section's fields, each below its description."""
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if value is None:
            continue
        yield from ("", f"{indent}# {field.description}")
        if isinstance(value, Section):
            yield f"{name}:"
            yield from _fields(value, "  ")
        else:
            yield indent + yaml.safe_dump({name: value}).rstrip()


def _read(path: Path) -> tuple[LockedConfig, str]:
    content = load_section(LockFile, [str(path)]).model_dump()
    digest = content.pop("digest")
    return LockedConfig(**content), digest
