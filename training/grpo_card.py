"""The card of a version made by a GRPO round."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from hermes_lab.errors import ConfigError
from hermes_lab.models import weights
from hermes_lab.models.adapters import adapter_digest
from hermes_lab.models.cards import Card, HeldOut, read_card
from hermes_lab.training.grpo_steps import METRICS, RoundBatch
from hermes_lab.training.lock import LockedConfig, lock_digest
from hermes_lab.training.lora import library_versions
from hermes_lab.training.rounds import Policy, RoundTraining
from hermes_lab.types import ScoredGroup


def grpo_card(
    locked: LockedConfig,
    base: Path,
    round_batch: RoundBatch,
    training_run: RoundTraining,
    *,
    refused: Mapping[str, int],
    runs: Sequence[Path],
    heldout: Sequence[HeldOut],
    command: str,
) -> Card:
    """The card of a round's version: `rows` counts the trained sequences, `steps` the steps of the round."""
    steps = training_run.rows()
    wanted = {*METRICS.values(), "reward", "length", "review_value", "review_value_error", "review_uplift"}
    # The mismatch is only measured at the first step.
    last = {name: value for row in steps for name, value in row.items() if name in wanted}
    parent = round_batch.policy.folder
    return Card(
        name=training_run.folder.name,
        method="grpo",
        digest=adapter_digest(training_run.folder),
        base_model=locked.base_model,
        base_digest=weights.digest(base),
        tokenizer_digest=training_run.made_from()["tokenizer"],
        parent=Path(parent).name,
        parent_digest=_parent_digest(round_batch.policy),
        lock_digest=lock_digest(locked),
        locked=locked.content(),
        runs=tuple(map(str, runs)),
        data_digest=groups_digest(round_batch.groups),
        refused=dict(refused),
        rows=sum(len(group.token_ids) for group in round_batch.groups),
        tokens=sum(len(ids_T) for group in round_batch.groups for ids_T in group.token_ids),
        trained_tokens=sum(sum(mask_T) for group in round_batch.groups for mask_T in group.masks),
        steps=round_batch.end - round_batch.begin,
        metrics=last,
        heldout=tuple(heldout),
        seconds=sum(row["seconds"] for row in steps),
        versions=library_versions(),
        command=command,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def check_card_of_round(version: Path, locked: LockedConfig, policy: Policy, groups: Iterable[ScoredGroup]) -> None:
    """Raises `ConfigError` if a finished version was not made from the round's policy and groups."""
    card = read_card(version)
    wanted = {
        "digest": adapter_digest(version),
        "parent_digest": _parent_digest(policy),
        "lock_digest": lock_digest(locked),
        "data_digest": groups_digest(groups),
    }
    for field, value in wanted.items():
        if getattr(card, field) != value:
            raise ConfigError(
                f"resume: {version} is not the adapter of this round: its card has another {field}; "
                "start without resume, with another out"
            )


def _parent_digest(policy: Policy) -> str:
    return policy.digest if policy.folder else ""


def groups_digest(groups: Iterable[ScoredGroup]) -> str:
    """sha256 of the groups in order."""
    return hashlib.sha256(msgspec.json.encode(list(groups))).hexdigest()
