"""The adapter registry: a folder of adapter versions, each with a card of its provenance."""

import re
from pathlib import Path

from hermes_lab.errors import ConfigError
from hermes_lab.models.adapters import adapter_folder, identify
from hermes_lab.models.cards import CARD, Card, flat_values, has_card, read_card
from hermes_lab.records import write_atomic, write_json

_METHODS = {
    "sft": "supervised fine-tuning on selected episodes",
    "preference": "preference optimisation (DPO) on pairs of samples",
    "grpo": "GRPO on scored groups of rollouts",
}
_VERSION = re.compile(r"(?P<name>.+)-v(?P<n>\d+)")


def versions(root: Path, name: str) -> list[Path]:
    """The folders of an adapter's versions, finished or not, oldest first."""
    found = [
        (int(m["n"]), path) for path in root.glob("*") if (m := _VERSION.fullmatch(path.name)) and m["name"] == name
    ]
    return [path for _, path in sorted(found)]


def name_of(folder: Path) -> str:
    """The adapter name of a version's folder, or ""."""
    match = _VERSION.fullmatch(folder.name)
    return match["name"] if match else ""


def new_version(root: Path, name: str) -> Path:
    """Creates the folder of the next version; safe for concurrent trainings."""
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
    """Writes README.md, then card.json, which marks the adapter as finished."""
    write_atomic(folder / "README.md", readme(card))
    write_json(folder / CARD, card)


def is_finished(folder: Path) -> bool:
    """Whether training is finished."""
    return has_card(folder)


def list_adapters(root: Path) -> list[tuple[Path, Card]]:
    """Folders and cards of all finished adapters below a folder, oldest first."""
    found = [(path.parent, read_card(path.parent)) for path in root.rglob(CARD)]
    return sorted(found, key=lambda item: (item[1].created_at, item[0]))


def find_adapter(wanted: str, root: Path) -> Path:
    """The folder of an adapter: `packaged`, a folder, a version `sft-v2`, or a name `sft` for its newest version.

    Raises `ConfigError` if there is none, or if it does not match its card.
    """
    given = adapter_folder(wanted)
    candidates = [*([given] if given else []), root / wanted, *reversed(versions(root, wanted))]
    folder = next((path for path in candidates if is_finished(path)), None)
    if folder is None:
        known = ", ".join(folder.name for folder, _ in list_adapters(root)) or "no adapter"
        raise ConfigError(f"adapter {wanted!r}: no such adapter; {root} holds {known}")
    identify(folder)
    return folder


def readme(card: Card) -> str:
    """The model card in Markdown."""
    refused = "".join(f"| refused: {reason} | {count} |\n" for reason, count in card.refused.items())
    locked = "\n".join(f"| {name} | {value} |" for name, value in flat_values(card.locked).items())
    compressed = f"| compressed rows | {card.compressed} |\n" if card.compressed else ""
    parent = f"| parent {card.parent} | `{card.parent_digest}` |\n" if card.parent else ""
    last = ", ".join(f"{name} {value:.4g}" for name, value in card.metrics.items()) or "no metrics"
    tested = "".join(f"Held-out success after {each.step} steps: {each.sentence()}.\n" for each in card.heldout)
    used = ", ".join(f"{name} {version}" for name, version in card.versions.items())
    return f"""\
---
library_name: peft
base_model: {card.base_model}
---
# {card.name}

A LoRA adapter for `{card.base_model}`, made on {card.created_at} by {_METHODS[card.method]}:
{card.steps} steps in {card.seconds:.0f} s. Last step: {last}.
Made with {used}.
{tested}
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
{compressed}{refused}
## Locked values
| | |
|---|---|
{locked}
"""
