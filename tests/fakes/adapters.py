"""Fake adapters for the registry, without training: PEFT's two files as our training writes them, and a card."""

import hashlib
import json
from pathlib import Path
from typing import Any

from hermes_lab.models.adapters import adapter_digest
from hermes_lab.models.cards import Card
from hermes_lab.training.adapters import new_version, write_card
from hermes_lab.training.lock import LockedConfig, load_lock, lock_digest, lock_metadata

LOCK = Path(__file__).parent / "locks" / "sft.yaml"


CONFIG = {"peft_type": "LORA", "r": 8, "lora_alpha": 16, "target_modules": ["k_proj", "q_proj"]}
"""What PEFT and our checks read of an adapter's configuration."""


def safetensors(metadata: dict[str, str], weights: bytes = b"", module: str = "q_proj", rank: int = 8) -> bytes:
    """A safetensors file with the two matrices of one module. Their numbers depend on `weights`."""
    size = 2 * rank
    name = f"base_model.model.model.layers.0.self_attn.{module}"
    header = {
        "__metadata__": metadata,
        f"{name}.lora_A.weight": {"dtype": "BF16", "shape": [rank, 1], "data_offsets": [0, size]},
        f"{name}.lora_B.weight": {"dtype": "BF16", "shape": [1, rank], "data_offsets": [size, 2 * size]},
    }
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + hashlib.shake_256(weights).digest(2 * size)


def write_lora(folder: Path, weights: str = "") -> Path:
    """Writes the two files of an adapter without a lock or a card, whose numbers depend on `weights`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "adapter_config.json").write_text(json.dumps(CONFIG))
    (folder / "adapter_model.safetensors").write_bytes(safetensors({}, weights.encode()))
    return folder


def write_base(folder: Path) -> None:
    """Writes the weights of a base model that these adapters fit."""
    header = {"model.layers.0.self_attn.q_proj.weight": {"dtype": "BF16", "shape": [1, 1], "data_offsets": [0, 2]}}
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + b"\0\0")


def write_adapter(
    folder: Path, locked: LockedConfig, *, weights: bytes, metadata: dict[str, str] | None = None
) -> None:
    """Writes the two files with the shapes of the lock. `metadata` describes the lock; by default it is correct."""
    config = {
        "peft_type": "LORA",
        "r": locked.lora_rank,
        "lora_alpha": locked.lora_alpha,
        "target_modules": ["k_proj", "q_proj"] if locked.lora_target == "all-linear" else locked.lora_target,
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "adapter_config.json").write_text(json.dumps(config))
    made_with = lock_metadata(locked) if metadata is None else metadata
    module = "q_proj" if locked.lora_target == "all-linear" else locked.lora_target
    (folder / "adapter_model.safetensors").write_bytes(safetensors(made_with, weights, module, locked.lora_rank))


def card_of(folder: Path, locked: LockedConfig, **fields: Any) -> Card:
    """The card that training would write."""
    usual: dict[str, Any] = {
        "name": folder.name,
        "digest": adapter_digest(folder),
        "base_model": locked.base_model,
        "base_digest": "b" * 64,
        "parent": "",
        "parent_digest": "",
        "lock_digest": lock_digest(locked),
        "locked": locked.content(),
        "runs": ("runs/a",),
        "data_digest": "d" * 64,
        "refused": {"not accepted": 3},
        "rows": 5,
        "tokens": 500,
        "trained_tokens": 100,
        "steps": 2,
        "metrics": {"loss": 0.25},
        "seconds": 12.0,
        "versions": {"torch": "2"},
        "created_at": "2026-01-01",
    }
    return Card(**usual | fields)


def make_adapter(root: Path, name: str = "sft", *, metadata: dict[str, str] | None = None, **fields: Any) -> Path:
    """Writes the next finished version of `name`; `fields` are set on its card."""
    folder = new_version(root, name)
    locked = load_lock(LOCK)
    write_adapter(folder, locked, weights=folder.name.encode().ljust(20), metadata=metadata)
    write_card(folder, card_of(folder, locked, **fields))
    return folder
