"""The locked file: the hyperparameters of training, which no run, agent or override can change.

A lock is YAML that ends with the digest of its own values. Only a person makes one, with `hermes-lab train
lock`; training refuses a file whose digest does not match.
"""

import hashlib
import json
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import Field

from hermes_lab.config import Section, load_section
from hermes_lab.errors import ConfigError
from hermes_lab.records import write_atomic

HOW_TO_CHANGE = "a person makes a new lock with `hermes-lab train lock SRC -o LOCK`"

Positive = Annotated[int, Field(gt=0)]


class LockedConfig(Section):
    """What decides a training. Nothing has a default: a lock says everything itself."""

    base_model: str
    """The weights under the adapter: `packaged`, a folder, or a hub id."""
    tokenizer: str
    """Where the tokenizer and its chat template come from: `packaged`, a folder, or a hub id."""
    rollout_server_url: str
    """The server that samples rollouts for training. SFT reads logged episodes, and samples none."""
    max_token_length: Positive
    """Tokens of a training row; a longer row is refused, never cut."""
    learning_rate: Annotated[float, Field(gt=0)]
    """The peak, after a linear warm-up and before a cosine decay to 0."""
    warmup_steps: Annotated[int, Field(ge=0)]
    """Steps of the warm-up."""
    total_steps: Positive
    """Optimiser steps."""
    batch_size: Positive
    """Rows of one optimiser step."""
    lora_rank: Positive
    """r of LoRA (arXiv:2106.09685)."""
    lora_alpha: Positive
    """alpha of LoRA; the update is scaled by alpha / r."""
    lora_target: str
    """The modules that are adapted, as PEFT names them; `all-linear` is every linear layer but the head."""
    save_checkpoint_interval: Positive
    """Steps between two checkpoints; a killed training resumes from the last one."""
    seed: int
    """Draws the adapter's initial weights and the order of rows."""
    use_wandb: bool
    """Log to Weights & Biases beside the JSON Lines that are always written."""


class _LockFile(LockedConfig):
    digest: str = ""


def lock_digest(locked: LockedConfig) -> str:
    """sha256 of the values as JSON with sorted keys; comments and order in the file do not count."""
    content = json.dumps(locked.model_dump(mode="json"), sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def load_lock(path: Path) -> LockedConfig:
    """Reads a lock. Raises `ConfigError` where a value is missing, unknown, or was changed by hand."""
    locked, digest = _read(path)
    if lock_digest(locked) != digest:
        problem = "a locked field was changed by hand: its digest differs" if digest else "it has no digest"
        raise ConfigError(f"{path}: {problem}; {HOW_TO_CHANGE}")
    return locked


def write_lock(source: Path, out: Path) -> str:
    """Makes the lock `out` from the values in `source`, which may be an edited lock. Returns its digest.

    Raises `ConfigError` where `out` exists: a lock that something was trained with is not replaced.
    """
    locked, _ = _read(source)
    if out.exists():
        raise ConfigError(f"{out}: exists, and a lock is never overwritten; give another file")
    digest = lock_digest(locked)
    lines = ["# Locked: training refuses this file after a change by hand.", f"# {HOW_TO_CHANGE}."]
    for name, field in LockedConfig.model_fields.items():
        lines += ["", f"# {field.description}", yaml.safe_dump({name: getattr(locked, name)}).rstrip()]
    lines += ["", f"digest: {digest}", ""]
    write_atomic(out, "\n".join(lines))
    return digest


def _read(path: Path) -> tuple[LockedConfig, str]:
    content = load_section(_LockFile, [str(path)]).model_dump()
    digest = content.pop("digest")
    return LockedConfig(**content), digest
