"""Finds versions in the registry that can be removed: unfinished ones, and superseded ones that nothing depends on."""

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from hermes_lab.errors import ConfigError
from hermes_lab.manifest import RunManifest, read_manifest
from hermes_lab.models.adapters import packaged_folder
from hermes_lab.models.cards import Card
from hermes_lab.training.adapters import is_finished, list_adapters, name_of, versions

_ACTIVE_SECONDS = 3600.0
"""Seconds without a change after which an unfinished version counts as abandoned."""


class Needless(NamedTuple):
    """A removable version, and why."""

    folder: Path
    why: str


def needless(root: Path, runs: Path) -> list[Needless]:
    """The removable versions directly below `root`. `runs` contains run folders that may refer to adapters.

    Kept are the newest finished version of each name, versions with a descendant (finished or not), versions used by a
    run, the packaged adapter, and versions (with their parents) that a GRPO training below `runs` may still resume.
    """
    cards = list_adapters(root)
    parents = {card.parent_digest for _, card in cards} | set(_parents_of_unfinished(root, runs))
    in_rounds = set(_versions_of_rounds(runs))
    named = _Named.by(runs)
    found: list[Needless] = []
    for name in sorted({name for folder in root.glob("*-v*") if folder.is_dir() and (name := name_of(folder))}):
        numbered = versions(root, name)
        found += [
            Needless(folder, "unfinished")
            for folder in numbered
            if folder.resolve() not in in_rounds and _is_abandoned(folder)
        ]
        finished = [folder for folder in numbered if is_finished(folder)]
        by_folder = dict(cards)
        found += [
            Needless(folder, f"superseded by {finished[-1].name}")
            for folder in finished[:-1]
            if by_folder[folder].digest not in parents
            and folder.resolve() not in in_rounds
            and not named.holds(folder, by_folder[folder])
        ]
    return [item for item in found if item.folder.resolve() != packaged_folder().resolve()]


def remove(items: list[Needless]) -> None:
    """Removes the folders."""
    for item in items:
        shutil.rmtree(item.folder)


def _is_abandoned(folder: Path) -> bool:
    changed = max(path.stat().st_mtime for path in (folder, *folder.rglob("*")))
    return not is_finished(folder) and time.time() - changed > _ACTIVE_SECONDS


def _parents_of_unfinished(root: Path, runs: Path) -> Iterator[str]:
    made_from = (*root.glob("*/checkpoints/made_from.json"), *runs.rglob("checkpoints/made_from.json"))
    return (parent for path in made_from if (parent := _field(path, "parent")))


def _versions_of_rounds(runs: Path) -> Iterator[Path]:
    return (Path(folder).resolve() for path in runs.rglob("round-*/version.json") if (folder := _field(path, "folder")))


def _field(path: Path, name: str) -> str:
    try:
        return str(json.loads(path.read_text()).get(name, ""))
    except (ValueError, AttributeError, RecursionError):
        return ""


class _Named(NamedTuple):
    """Adapters used by runs: their digests, and configured folders or names."""

    digests: set[str]
    wanted: set[str]

    @classmethod
    def by(cls, runs: Path) -> "_Named":
        manifests = [manifest for path in runs.rglob("run.json") if (manifest := _manifest(path.parent))]
        wanted = {name for manifest in manifests for name in _adapters(manifest.config) if name}
        return cls({manifest.adapter_digest for manifest in manifests}, wanted)

    def holds(self, folder: Path, card: Card) -> bool:
        if card.digest in self.digests:
            return True
        served, here = f"-{card.digest[:12]}", folder.resolve()
        return any(name.endswith(served) or Path(name).resolve() == here for name in self.wanted)


def _manifest(run: Path) -> RunManifest | None:
    try:
        return read_manifest(run)
    except ConfigError:
        return None


def _adapters(config: dict[str, Any]) -> tuple[str, ...]:
    learning = config.get("learning", {}).get("adapters", ())
    return (config.get("model", {}).get("adapter", ""), *learning)
