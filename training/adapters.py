"""The adapter registry: a folder of versions, each with a card that says what it was made from."""

import re
from pathlib import Path
from typing import Any

import msgspec

from hermes_lab.errors import ConfigError
from hermes_lab.models.adapters import adapter_digest
from hermes_lab.records import write_atomic, write_json

_CARD = "card.json"
_VERSION = re.compile(r"(?P<name>.+)-v(?P<n>\d+)")


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """Where an adapter comes from.

    Digests are sha256: `digest` of the adapter's two files, `base_digest` of the base model's weight files,
    `data_digest` of the selected conversations, `lock_digest` of `locked`, the locked values. `refused`
    counts the episodes that were not trained on by reason, `rows` and `tokens` what remained,
    `trained_tokens` those of them with a loss. `loss` is that of the last step, in nats a token. `parent` is
    the adapter that the training began from.
    """

    v: int = 1
    name: str
    digest: str
    base_model: str
    base_digest: str
    parent: str
    parent_digest: str
    lock_digest: str
    locked: dict[str, Any]
    runs: tuple[str, ...]
    data_digest: str
    refused: dict[str, int]
    rows: int
    tokens: int
    trained_tokens: int
    steps: int
    loss: float
    seconds: float
    versions: dict[str, str]
    created_at: str

    def sentence(self) -> str:
        """For a person."""
        parent = f" from {self.parent}" if self.parent else ""
        return (
            f"{self.base_model}{parent}, {self.steps} steps on {self.rows} rows in {self.seconds:.0f} s, "
            f"loss {self.loss:.4f}, data {self.data_digest[:12]}, lock {self.lock_digest[:12]}"
        )


_decoder = msgspec.json.Decoder(Card)


def versions(root: Path, name: str) -> list[Path]:
    """The folders of an adapter's versions, finished or not, oldest first."""
    found = [
        (int(m["n"]), path) for path in root.glob("*") if (m := _VERSION.fullmatch(path.name)) and m["name"] == name
    ]
    return [path for _, path in sorted(found)]


def new_version(root: Path, name: str) -> Path:
    """Makes the folder of the next version. Two trainings at once never get the same."""
    while True:
        newest = versions(root, name)
        number = int(newest[-1].name.rpartition("-v")[2]) + 1 if newest else 1
        folder = root / f"{name}-v{number}"
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        return folder


def write_card(folder: Path, card: Card) -> None:
    """Writes README.md, then card.json: its presence says that the adapter is finished."""
    write_atomic(folder / "README.md", readme(card))
    write_json(folder / _CARD, card)


def is_finished(folder: Path) -> bool:
    """Whether training came to its end."""
    return (folder / _CARD).is_file()


def read_card(folder: Path) -> Card:
    """Raises `ConfigError` where the folder has no card."""
    path = folder / _CARD
    try:
        return _decoder.decode(path.read_bytes())
    except FileNotFoundError:
        raise ConfigError(f"{folder}: no adapter of the registry: it holds no {_CARD}") from None
    except msgspec.DecodeError as error:
        raise ConfigError(f"{path}: not an adapter card: {error}") from None


def list_adapters(root: Path) -> list[tuple[Path, Card]]:
    """The folders and cards of all finished adapters below a folder, oldest first."""
    found = [(path.parent, read_card(path.parent)) for path in root.rglob(_CARD)]
    return sorted(found, key=lambda item: (item[1].created_at, item[0]))


def find_adapter(wanted: str, root: Path) -> Path:
    """The folder of an adapter: a folder, a version `sft-v2`, or a name `sft` for its newest version.

    Raises `ConfigError` where there is none, or where its files are not those of its card.
    """
    candidates = [Path(wanted), root / wanted, *reversed(versions(root, wanted))]
    folder = next((path for path in candidates if is_finished(path)), None)
    if folder is None:
        known = ", ".join(folder.name for folder, _ in list_adapters(root)) or "no adapter"
        raise ConfigError(f"adapter {wanted!r}: no such adapter; {root} holds {known}")
    if adapter_digest(folder) != read_card(folder).digest:
        raise ConfigError(f"{folder}: its files are not those that were trained (see its card); train it again")
    return folder


def readme(card: Card) -> str:
    """The model card, for a person."""
    refused = "".join(f"| refused: {reason} | {count} |\n" for reason, count in card.refused.items())
    locked = "\n".join(f"| {name} | {value} |" for name, value in card.locked.items())
    parent = f"| parent {card.parent} | `{card.parent_digest}` |\n" if card.parent else ""
    used = ", ".join(f"{name} {version}" for name, version in card.versions.items())
    return f"""\
---
library_name: peft
base_model: {card.base_model}
---
# {card.name}

A LoRA adapter for `{card.base_model}`, made on {card.created_at} by supervised fine-tuning on
selected episodes: {card.steps} steps in {card.seconds:.0f} s, last loss {card.loss:.4f} nats a token.
Made with {used}.

| | sha256 |
|---|---|
| adapter | `{card.digest}` |
| base weights | `{card.base_digest}` |
| data | `{card.data_digest}` |
| lock | `{card.lock_digest}` |
{parent}
## Data
From {", ".join(f"`{run}`" for run in card.runs)}.

| | count |
|---|---|
| rows | {card.rows} |
| tokens | {card.tokens} |
| tokens with a loss | {card.trained_tokens} |
{refused}
## Locked values
| | |
|---|---|
{locked}
"""
