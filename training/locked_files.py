"""Checks that the base model and the tokenizer on this machine are those that the lock was made with."""

from pathlib import Path

from hermes_lab.errors import ConfigError
from hermes_lab.models import weights
from hermes_lab.training.architecture import check_target
from hermes_lab.training.lock import HOW_TO_CHANGE, LockedConfig, unpinned


def check_locked_files(locked: LockedConfig, say: weights.Say = weights.silent, *, planned: bool = False) -> None:
    """Raises `ConfigError` if weights, config.json, tokenizer or chat template were changed since the lock was made.

    A lock without these digests, from an earlier version or from a machine without the files, is not compared. Nor are
    the weights for a plan (`planned`) if they would have to be downloaded. A `lora_target` that matches nothing is
    refused, too.
    """
    check_target(locked.base_model, locked.lora_target)
    model = base_folder(locked, say, planned=planned)
    tokenizer = weights.resolve_tokenizer(locked.tokenizer, say)
    if weights.PACKAGED in (locked.base_model, locked.tokenizer):
        weights.check_packaged_files()
    if locked.model_digest and model:
        weights.training_digest(locked.base_model, model)  # reads the weights, whatever is cached
        found = weights.model_digest(model)
        _compare("base_model", locked.base_model, model, found, locked.model_digest, "its weights or config.json")
    if locked.tokenizer_digest:
        found = weights.tokenizer_digest(tokenizer)
        what = "its files or its chat template"
        _compare("tokenizer", locked.tokenizer, tokenizer, found, locked.tokenizer_digest, what)


def base_folder(locked: LockedConfig, say: weights.Say = weights.silent, *, planned: bool) -> Path | None:
    """The folder of the base model, downloaded if needed; None for a plan (`planned`) if it would be downloaded."""
    return weights.present(locked.base_model) if planned else weights.resolve(locked.base_model, say)


def warn_if_unpinned(locked: LockedConfig, say: weights.Say) -> None:
    """Says that a lock has no digests to compare with."""
    if warning := unpinned(locked):
        say(f"warning: {warning}")


def _compare(field: str, name: str, folder: Path, found: str, wanted: str, what: str) -> None:
    if found != wanted:
        raise ConfigError(
            f"lock: {field} {name!r}: sha256 {found[:12]} in {folder}, but locked at {wanted[:12]}: {what} were "
            f"changed after the lock was made, or it is another folder; restore them, or {HOW_TO_CHANGE}"
        )
