"""Checkpoint manifests: digests of a complete checkpoint's files and of the training's inputs.

A resume restores learning rate, schedule, steps and weights from these files. It first verifies the manifest, and
rejects changed, added or removed files and checkpoints of another training. Like a lock's digest, a manifest protects
against accidents and edits; it is not a signature.
"""

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hermes_lab.durable import sync_files
from hermes_lab.errors import ConfigError
from hermes_lab.records import write_json
from hermes_lab.training.lock_enforcement import refusal
from hermes_lab.training.processes import from_first

SEAL = "seal.json"

_HOLDS = {
    "optimizer.pt": "learning_rate",
    "scheduler.pt": "learning_rate",
    "training_args.bin": "learning_rate",
    "trainer_state.json": "total_steps",
    "adapter_config.json": "lora_rank",
    "tokenizer.json": "tokenizer",
    "tokenizer_config.json": "tokenizer",
    "chat_template.jinja": "tokenizer",
}
"""Locked fields that a checkpoint's files could change."""


def write_manifest(checkpoint: Path, made_from: Mapping[str, str]) -> None:
    """Writes the manifest of a complete checkpoint, whose files are on disk before it."""
    sync_files(checkpoint)
    write_json(checkpoint / SEAL, {"made_from": dict(made_from), "files": _digests(checkpoint)})


def check_manifest(checkpoint: Path, made_from: Mapping[str, str], lock: str) -> None:
    """Raises `ConfigError` if a checkpoint does not match its manifest or belongs to another training.

    `lock` is the path of the lock file, for the message.
    """
    try:
        seal = json.loads((checkpoint / SEAL).read_text())
        files, belongs_to = dict(seal["files"]), dict(seal["made_from"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ConfigError(f"resume: {checkpoint / SEAL} is not a checkpoint manifest; start without resume") from None
    if belongs_to != made_from:
        raise ConfigError(f"resume: {checkpoint} belongs to another training; start without resume")
    found = _digests(checkpoint)
    for name in sorted(files.keys() | found.keys()):
        if files.get(name) != found.get(name):
            field = _HOLDS.get(name, "")
            tried = f" It holds {field}: {refusal(field, lock)}." if field else ""
            raise ConfigError(
                f"resume: {checkpoint / name} was changed after training wrote it.{tried} Start without resume"
            )


def manifest_callback(write: Callable[[int], None], lock: str) -> Any:
    """A callback that calls `write` with the step of each saved checkpoint, and checks what a resume restored.

    Raises `ConfigError` before the first step if the restored learning rate is not the one in `lock`.
    """
    from transformers import TrainerCallback

    class ManifestCallback(TrainerCallback):  # type: ignore[misc]
        """Called after the trainer has written or read all files of a checkpoint."""

        def on_save(self, _args: Any, state: Any, _control: Any, **_: Any) -> None:
            from_first(lambda: write(state.global_step))

        def on_train_begin(
            self, args: Any, _state: Any, _control: Any, optimizer: Any = None, lr_scheduler: Any = None, **_: Any
        ) -> None:
            check_rates(args.learning_rate, optimizer.param_groups, lr_scheduler, lock)

    return ManifestCallback()


def check_rates(learning_rate: float, param_groups: list[dict[str, Any]], scheduler: Any, lock: str) -> None:
    """Raises `ConfigError` if the optimiser or the schedule has another learning rate than the lock."""
    now = [
        base * rate(scheduler.last_epoch) for base, rate in zip(scheduler.base_lrs, scheduler.lr_lambdas, strict=True)
    ]
    peaks = [*scheduler.base_lrs, *(group.get("initial_lr", learning_rate) for group in param_groups)]
    at_peak = all(math.isclose(peak, learning_rate, rel_tol=1e-9) for peak in peaks)
    in_step = all(
        math.isclose(g["lr"], lr, rel_tol=1e-9, abs_tol=1e-15) for g, lr in zip(param_groups, now, strict=True)
    )
    if not (at_peak and in_step):
        raise ConfigError(f"resume: the checkpoint has another learning rate: {refusal('learning_rate', lock)}")


def _digests(checkpoint: Path) -> dict[str, str]:
    files = sorted(path for path in checkpoint.rglob("*") if path.is_file() and path != checkpoint / SEAL)
    return {str(path.relative_to(checkpoint)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
