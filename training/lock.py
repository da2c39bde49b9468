"""The lock file: training hyperparameters that no run, agent or override can change.

A lock is a YAML file that ends with the digest of its values. Only a person creates one, with `hermes-lab train lock`;
training rejects a file whose digest does not match.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field, ValidationInfo, field_validator

from hermes_lab.config.section import Section
from hermes_lab.config.sources import load_section
from hermes_lab.config.units import Unit
from hermes_lab.config.window import above_min_success
from hermes_lab.envs.learning.config import ReviewWorth
from hermes_lab.errors import ConfigError
from hermes_lab.models import weights
from hermes_lab.models.cards import LOCK_KEY, LOCKED_KEY, values_digest
from hermes_lab.models.lora_files import SERVED_RANKS
from hermes_lab.records import write_atomic
from hermes_lab.training.architecture import check_target

HOW_TO_CHANGE = "make a new lock with `hermes-lab train lock SRC -o LOCK`"

RUN_FIELDS = {
    "model.base_url": "rollout_server_url",
    "model.sampling.temperature": "grpo.temperature",
    "model.sampling.max_tokens": "grpo.max_reply_tokens",
    "run.samples": "grpo.group_size",
    "run.concurrency": "grpo.max_num_workers",
    "agent.max_seconds": "grpo.worker_timeout",
}
"""Fields of a GRPO rollout run that the lock sets: the run's field and the locked field."""

Positive = Annotated[int, Field(gt=0, le=10_000_000)]


class GrpoLock(Section):
    """Hyperparameters specific to GRPO."""

    group_size: Annotated[int, Field(ge=2)]
    """Rollouts per task; their rewards are compared within the group."""
    groups_per_round: Positive
    """Tasks per round."""
    steps_per_round: Positive
    """Optimiser steps on the groups of one round; there are total_steps / steps_per_round rounds."""
    temperature: Annotated[float, Field(gt=0)]
    """Sampling temperature, with top_p 1. At 1.0 the sampler's log-probabilities are the policy's."""
    max_reply_tokens: Annotated[Positive, Unit("tokens")]
    """Maximum completion tokens per reply."""
    clip_epsilon: Annotated[float, Field(gt=0)]
    """The ratio of new to old probability is clipped to [1 - epsilon, 1 + epsilon]."""
    max_batches_offpolicy: Annotated[int, Field(ge=0)]
    """Maximum age of a group's policy in rounds; 0: on-policy only."""
    max_num_workers: Positive
    """Concurrent rollouts."""
    worker_timeout: Annotated[float, Field(gt=0), Unit("seconds")]
    """Maximum duration of a rollout."""
    steps_per_eval: Annotated[int, Field(ge=0)]
    """Optimiser steps between two held-out evaluations; 0: none."""
    eval_limit_ratio: Annotated[float, Field(gt=0, le=1)]
    """Number of evaluation tasks, with one rollout each, as a fraction of a round's rollouts."""
    inference_weight: Annotated[float, Field(gt=0)]
    """This environment's weight on an Atropos server with several environments."""


class PreferenceLock(Section):
    """Hyperparameters specific to preference training (DPO, arXiv:2305.18290)."""

    beta: Annotated[float, Field(gt=0)]
    """DPO's beta: the strength of the penalty for moving away from the reference model."""


class CurriculumLock(Section):
    """How a GRPO training with `families` chooses among them (`hermes_lab.training.curriculum`)."""

    min_success: Annotated[float, Field(ge=0, lt=1)]
    """A family with a lower success rate is left out for a while."""
    max_success: Annotated[float, Field(gt=0, le=1)]
    """A family with a higher success rate is left out for a while."""
    memory_rounds: Positive
    """Success rates are computed over this many rounds; a family not sampled in that window is tried again."""

    _window = field_validator("max_success")(above_min_success)


class HardwareLock(Section):
    """How a training uses a GPU. Without this section the CPU layout is used: rows of 2,048 tokens at a time, no
    quantization, no checkpointing, no packing."""

    gpu_memory: Annotated[Positive, Unit("GB")]
    """Memory of the GPU that the values were chosen for."""
    precision: Literal["bfloat16", "float32"]
    """Number format of the base model's weights and of computation; the adapter is always in float32."""
    quantization: Literal["none", "nf4"]
    """`nf4`: the base model's linear layers are stored in 4 bits (QLoRA, arXiv:2305.14314)."""
    gradient_checkpointing: bool
    """Keep only each layer's input and compute the rest again: less memory, a third more work."""
    packing: bool
    """Put rows one after another in one sequence, without padding; no row attends to another."""
    micro_tokens: Annotated[Positive, Unit("tokens")]
    """Maximum tokens that run at once. It bounds memory and does not change the step."""


class LockedConfig(Section):
    """All hyperparameters of a training. There are no defaults: a lock states every value.

    `grpo` and `preference` are set for trainings of that kind, `curriculum` for GRPO with families, `reviews` for GRPO
    on reviews, `hardware` for a GPU; an absent section is not part of the digest.
    """

    base_model: str
    """The base model: `packaged`, a folder, or a hub id."""
    tokenizer: str
    """The tokenizer and its chat template: `packaged`, a folder, or a hub id."""
    rollout_server_url: str
    """The server that samples rollouts for GRPO. SFT and DPO train on logged episodes and do not use it."""
    max_token_length: Annotated[Positive, Unit("tokens")]
    """Maximum tokens per training row; longer rows are rejected, never truncated."""
    learning_rate: Annotated[float, Field(gt=0)]
    """Peak learning rate: linear warm-up, then cosine decay to 0."""
    warmup_steps: Annotated[int, Field(ge=0), Unit("steps")]
    """Warm-up steps."""
    total_steps: Annotated[Positive, Unit("steps")]
    """Optimiser steps."""
    batch_size: Positive
    """Rows per optimiser step; in GRPO, rows that run at once: its steps are on all usable groups of a round."""
    lora_rank: Annotated[int, Field(gt=0, le=SERVED_RANKS[-1])]
    """LoRA rank r (arXiv:2106.09685). vLLM's maximum is 512."""
    lora_alpha: Positive
    """LoRA alpha; the update is scaled by alpha / r."""
    lora_target: str
    """PEFT's target_modules; `all-linear` is every linear layer except the head."""
    save_checkpoint_interval: Annotated[Positive, Unit("steps")]
    """Steps between checkpoints; a killed training resumes from the last one."""
    seed: Annotated[int, Field(ge=0, lt=2**32)]
    """Seed of the adapter's initial weights and the order of rows."""
    use_wandb: bool
    """Also log to Weights & Biases, in addition to the JSON Lines."""
    model_digest: str | None = None
    """sha256 of the base model's weights and config.json, noted when the lock is made. Absent: not compared."""
    tokenizer_digest: str | None = None
    """sha256 of the tokenizer's files and chat template, noted when the lock is made. Absent: not compared."""
    grpo: GrpoLock | None = None
    """GRPO only."""
    preference: PreferenceLock | None = None
    """Preference training only."""
    curriculum: CurriculumLock | None = None
    """GRPO with `families` only."""
    reviews: ReviewWorth | None = None
    """GRPO with `objective: review` or `both` only."""
    hardware: HardwareLock | None = None
    """How a GPU is used."""

    @field_validator("grpo")
    @classmethod
    def _whole_rounds(cls, grpo: GrpoLock | None, info: ValidationInfo) -> GrpoLock | None:
        steps = info.data.get("total_steps", 0)
        if grpo and steps % grpo.steps_per_round:
            raise ValueError(f"total_steps is {steps}, not a multiple of steps_per_round {grpo.steps_per_round}")
        return grpo

    def content(self) -> dict[str, Any]:
        """The values as JSON, without absent sections: the input of the digest, and the content of a card."""
        return self.model_dump(mode="json", exclude_none=True)


class LockFile(LockedConfig):
    """A lock file: the values and their digest."""

    digest: str = ""


def lock_digest(locked: LockedConfig) -> str:
    """sha256 of the values as JSON with sorted keys. Comments and order in the file do not affect it."""
    return values_digest(locked.content())


def lock_metadata(locked: LockedConfig) -> dict[str, str]:
    """The lock's metadata for an adapter's safetensors file, which `check_card` reads."""
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

    The lock also gets the digests of the base model and the tokenizer, if these are folders or hub ids and on this
    machine. `packaged` has digests of its own.

    Raises `ConfigError` if `out` exists (locks are never replaced), or for a `lora_target` that does not fit
    the base model, if its sizes are known.
    """
    return save_lock(_read(source)[0], out)


def save_lock(locked: LockedConfig, out: Path) -> str:
    """Creates the lock `out` from `locked`; as `write_lock`."""
    if out.exists():
        raise ConfigError(f"{out}: exists, and a lock is never overwritten; give another file")
    check_target(locked.base_model, locked.lora_target)
    locked = _with_files(locked)
    write_atomic(out, lock_text(locked))
    return lock_digest(locked)


def lock_text(locked: LockedConfig) -> str:
    """The text of a lock file: how to change it, each field below its description, and the digest."""
    lines = [
        "# Locked: training rejects this file if a value was edited.",
        "# To change a value, edit a copy and run `hermes-lab train lock COPY -o LOCK`.",
    ]
    return "\n".join([*lines, *_fields(locked), "", f"digest: {lock_digest(locked)}", ""])


def _with_files(locked: LockedConfig) -> LockedConfig:
    model, tokenizer = (weights.on_this_machine(name) for name in (locked.base_model, locked.tokenizer))
    known = {
        "model_digest": weights.model_digest(model) if model and weights.has_weights(model) else locked.model_digest,
        "tokenizer_digest": weights.tokenizer_digest(tokenizer) if tokenizer else locked.tokenizer_digest,
    }
    names = {"model_digest": locked.base_model, "tokenizer_digest": locked.tokenizer}
    return locked.model_copy(
        update={field: None if names[field] == weights.PACKAGED else value for field, value in known.items()}
    )


def unpinned(locked: LockedConfig) -> str:
    """A warning if the lock has no digest of the base model or the tokenizer, with the remedy; else ""."""
    given = {
        f"the weights of {locked.base_model}": (locked.base_model, locked.model_digest),
        f"the tokenizer of {locked.tokenizer}": (locked.tokenizer, locked.tokenizer_digest),
    }
    missing = [what for what, (name, digest) in given.items() if name != weights.PACKAGED and not digest]
    if not missing:
        return ""
    return (
        f"the lock has no digest of {' and '.join(missing)}: it was made where that was not downloaded, or by an "
        "earlier version, so others would train under the same lock. To add it, run `hermes-lab train lock LOCK -o "
        "NEW` where it is downloaded"
    )


def locked_overrides(locked: LockedConfig) -> dict[str, Any]:
    """The configuration fields of a GRPO rollout run that the lock sets, with their values.

    Raises `ConfigError` if the lock has no GRPO section.
    """
    return {name: locked_value(locked, field) for name, field in RUN_FIELDS.items()} | {"model.sampling.top_p": 1.0}


def locked_value(locked: LockedConfig, field: str) -> Any:
    """The value of a field such as `grpo.temperature`. Raises `ConfigError` if the lock lacks its section."""
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
        yield from ("", f"{indent}# {' '.join((field.description or '').split())}")
        if isinstance(value, Section):
            yield f"{name}:"
            yield from _fields(value, "  ")
        else:
            yield indent + yaml.safe_dump({name: value}).rstrip()


def _read(path: Path) -> tuple[LockedConfig, str]:
    try:
        content = load_section(LockFile, [str(path)]).model_dump()
    except ConfigError as error:  # a missing field has no line
        raise ConfigError(str(error) if str(path) in str(error) else f"{path}: {error}") from None
    digest = content.pop("digest")
    return LockedConfig(**content), digest
