"""Adapter cards: what an adapter was trained from. Read wherever adapters are trained, loaded, merged or served."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from hermes_lab.errors import ConfigError
from hermes_lab.models.tensor_files import read_header

CARD = "card.json"
ADAPTER_CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
LOCK_KEY, LOCKED_KEY = "hermes_lab.lock", "hermes_lab.locked"
"""Metadata keys in an adapter's safetensors file: the digest of its lock, and the locked values as JSON."""
Method = Literal["sft", "preference", "grpo"]


class HeldOut(msgspec.Struct, frozen=True, kw_only=True):
    """Held-out success of the policy after `step` optimiser steps of a training: `success` over `tasks` judged tasks,
    with its 95 % interval."""

    step: int
    success: float
    tasks: int
    low: float | None = None
    high: float | None = None

    def sentence(self) -> str:
        """`12 of 24 held-out tasks solved, 50 % (31-69 %)`."""
        rate = f"{round(self.success * self.tasks)} of {self.tasks} held-out tasks solved, {100 * self.success:.0f} %"
        if self.low is None or self.high is None:
            return rate
        return f"{rate} ({100 * self.low:.0f}-{100 * self.high:.0f} %)"


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """The provenance of an adapter.

    Digests are sha256: `digest` of the adapter's two files, `base_digest` of the base model's weight files,
    `tokenizer_digest` of the tokenizer files and chat template ("" on older cards), `data_digest` of the training data,
    `lock_digest` of `locked`, the locked values. `refused` counts excluded episodes or groups by reason, and
    `compressed` the rows shortened to fit; `rows` and `tokens` count what remained, `trained_tokens` the tokens with a
    loss. `metrics` are those of the last step, in the units of `metrics.jsonl`. `heldout` are the evaluations of its
    training before this version was made, the first one before the first step. `parent` is the adapter that training
    started from, `command` the command line.
    """

    v: int = 2
    name: str
    method: Method = "sft"
    digest: str
    base_model: str
    base_digest: str
    tokenizer_digest: str = ""
    parent: str
    parent_digest: str
    lock_digest: str
    locked: dict[str, Any]
    runs: tuple[str, ...]
    data_digest: str
    refused: dict[str, int]
    compressed: int = 0
    rows: int
    tokens: int
    trained_tokens: int
    steps: int
    metrics: dict[str, float] = {}
    heldout: tuple[HeldOut, ...] = ()
    seconds: float
    versions: dict[str, str]
    command: str = ""
    created_at: str

    def sentence(self) -> str:
        """A one-sentence summary."""
        parent = f" from {self.parent}" if self.parent else ""
        loss = f", loss {self.metrics['loss']:.4f}" if "loss" in self.metrics else ""
        return (
            f"{self.method} of {self.base_model}{parent}, {self.steps} steps on {self.rows} rows in "
            f"{self.seconds:.0f} s{loss}, data {self.data_digest[:12]}, lock {self.lock_digest[:12]}"
        )


class _Version(msgspec.Struct):
    v: int = 1


class _CardV1(Card, frozen=True, kw_only=True):
    loss: float


_decoder = msgspec.json.Decoder(Card)
_decoder_v1 = msgspec.json.Decoder(_CardV1)


def values_digest(locked: Mapping[str, Any]) -> str:
    """sha256 of a lock's values as JSON with sorted keys, as stored in lock files and in `Card.lock_digest`."""
    return hashlib.sha256(json.dumps(locked, sort_keys=True).encode()).hexdigest()


def has_card(folder: Path) -> bool:
    """Whether the adapter comes from a completed training of this package."""
    return (folder / CARD).is_file()


def read_card(folder: Path) -> Card:
    """Reads the card. Raises `ConfigError` if the folder has none."""
    path = folder / CARD
    try:
        content = path.read_bytes()
        if msgspec.json.decode(content, type=_Version).v > 1:
            return _decoder.decode(content)
        old = _decoder_v1.decode(content)
    except FileNotFoundError:
        raise ConfigError(f"{folder}: not an adapter trained by Hermes Lab: {CARD} is missing") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: not an adapter card: {error}") from None
    kept = {name: getattr(old, name) for name in Card.__struct_fields__}
    return Card(**kept | {"v": 2, "metrics": {"loss": old.loss}})


def check_card(folder: Path, digest: str) -> None:
    """Raises `ConfigError` if the adapter with digest `digest` does not match its card.

    Adapters without a card are third-party and not checked.
    """
    if not has_card(folder):
        return
    if problem := next(_problems(read_card(folder), folder, digest), ""):
        raise ConfigError(
            f"{folder / CARD}: {problem}; the card or the adapter was edited: restore what the training wrote, or "
            "train again; for other values, make a new lock with `hermes-lab train lock SRC -o LOCK`"
        )


def _problems(card: Card, folder: Path, digest: str) -> Iterator[str]:
    """What is wrong with a card, starting with problems of a single field."""
    told = flat_values(card.locked)
    for field, found in _shape(folder).items():
        if field in told and not _same_shape(field, told[field], found):
            yield f"locked.{field} is {told[field]!r}, but the adapter has {found!r}"
    made_with = read_header(folder / WEIGHTS).metadata
    truth = flat_values(_object(made_with[LOCKED_KEY])) if LOCKED_KEY in made_with else told
    for field in sorted(truth.keys() | told.keys()):
        if truth.get(field) != told.get(field):
            yield f"locked.{field} is {told.get(field)!r}, but was locked at {truth.get(field)!r} when it was trained"
    if (lock := made_with.get(LOCK_KEY, card.lock_digest)) != card.lock_digest:
        yield f"lock_digest is {card.lock_digest!r}, but the adapter was trained with the lock {lock}"
    if values_digest(card.locked) != card.lock_digest:
        yield f"locked: its values do not match lock_digest {card.lock_digest}"
    if card.base_model != told.get("base_model", card.base_model):
        yield f"base_model is {card.base_model!r}, but locked at {told['base_model']!r}"
    if digest != card.digest:
        yield f"digest is {card.digest!r}, but the adapter's files have the digest {digest}: not the trained ones"


def _object(text: str) -> dict[str, Any]:
    try:
        return dict(json.loads(text))
    except (ValueError, TypeError, RecursionError):
        return {}


def flat_values(locked: Mapping[str, Any]) -> dict[str, Any]:
    """Locked values by their full names: `{"grpo": {"temperature": 1}}` as `{"grpo.temperature": 1}`."""
    flat: dict[str, Any] = {}
    for name, value in locked.items():
        flat |= {f"{name}.{inner}": v for inner, v in value.items()} if isinstance(value, dict) else {name: value}
    return flat


def _shape(folder: Path) -> dict[str, Any]:
    """The locked fields that the adapter's PEFT configuration contains too."""
    path = folder / ADAPTER_CONFIG
    try:
        config = json.loads(path.read_bytes())
        named = {"lora_rank": "r", "lora_alpha": "lora_alpha", "lora_target": "target_modules"}
        return {field: config[name] for field, name in named.items() if name in config}
    except (ValueError, TypeError, RecursionError) as error:
        raise ConfigError(f"{path}: not a PEFT configuration: {error}") from None


def _same_shape(field: str, locked: Any, found: Any) -> bool:
    if field != "lora_target" or locked == found:
        return bool(locked == found)
    if not isinstance(found, list):
        return False
    # PEFT replaces `all-linear` by the names of all layers except the head.
    return bool(found) and "lm_head" not in found if locked == "all-linear" else found == [locked]
