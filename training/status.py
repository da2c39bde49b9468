"""The status of trainings, read from their metrics, rounds and cards."""

import json
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from hermes_lab.errors import ConfigError
from hermes_lab.models.cards import CARD, Card, read_card
from hermes_lab.training.adapters import versions
from hermes_lab.training.rounds import MADE_FROM, FinishedRound, Rounds, stopped

METRICS = "metrics.jsonl"
_DEPTH = 3
"""Folder levels between `runs/` and a training: `runs/loop/adapters/sft-v1`."""
_LAST = 20
_CARD_FIELDS = (
    *("name", "method", "base_model", "parent", "lock_digest", "runs", "rows", "trained_tokens", "refused", "steps"),
    *("metrics", "heldout", "seconds", "created_at", "digest"),
)


def list_trainings(root: Path) -> list[Path]:
    """Folders below `root` with a training, finished or not, by name."""
    found: set[Path] = set()
    for depth in range(1, _DEPTH + 1):
        for name in (CARD, METRICS, "checkpoints"):
            found.update(path.parent for path in root.glob("/".join(["*"] * depth + [name])))
    return sorted(found)


def find_training(name: str, root: Path) -> Path:
    """The training with this path below `root` or this unique folder name; for an adapter name, its newest version.
    Raises `ConfigError` otherwise."""
    trainings = list_trainings(root)
    found = [path for path in trainings if name in (path.name, str(path), str(path.relative_to(root)))]
    if not found:
        found = [path for path in versions(root / "adapters", name)[-1:] if path in trainings]
    if len(found) == 1:
        return found[0]
    if found:
        raise ConfigError(f"{name[:80]!r} are several: {', '.join(map(str, found))}; give one of these")
    known = ", ".join(map(str, trainings[:_LAST])) or "none"
    raise ConfigError(f"no training {name[:80]!r}; there are: {known}")


def status(folder: Path) -> dict[str, Any]:
    """Whether the training is finished or stopped, and its last metrics with their age.

    Does not check for a running process."""
    rows = last_metrics(folder, 1)
    done = _rounds(folder)
    finished = (folder / CARD).is_file() or _made_all(folder, done)
    answer: dict[str, Any] = {"training": str(folder), "status": "finished" if finished else "unfinished"}
    if done:
        answer["rounds"] = len(done)
    if why := stopped(folder):
        answer |= {"status": "stopped", "why": why}
    if rows:
        answer |= {"last": rows[-1], "seconds_ago": round(max(time.time() - (folder / METRICS).stat().st_mtime, 0))}
    return answer


def results(folder: Path) -> dict[str, Any]:
    """The card, if there is one, and the last metrics, held-out evaluations included."""
    answer: dict[str, Any] = {"training": str(folder), "last_metrics": last_metrics(folder, _LAST)}
    if found := _card(folder, _rounds(folder)):
        card = msgspec.to_builtins(found)
        answer["card"] = {name: card[name] for name in _CARD_FIELDS}
    return answer


def last_metrics(folder: Path, count: int) -> list[dict[str, Any]]:
    """The last lines of the metrics. Skips partially written lines."""
    try:
        with (folder / METRICS).open("rb") as file:
            return list(deque(_objects(file), maxlen=count))
    except FileNotFoundError:
        return []


def _objects(lines: Any) -> Iterator[dict[str, Any]]:
    for line in lines:
        try:
            row = json.loads(line) if line.endswith(b"\n") else None
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            yield row


def _rounds(folder: Path) -> list[FinishedRound]:
    """The finished rounds of a GRPO training; empty for other trainings."""
    found: list[FinishedRound] = []
    try:
        for done in Rounds(folder).records():
            found.append(done)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass  # report the rounds read so far
    return found


def _made_all(folder: Path, done: list[FinishedRound]) -> bool:
    """Whether these are all rounds of the lock, whose values are in the last version's card."""
    card = _card(folder, done)
    if not card or "grpo" not in card.locked:
        return False
    wanted: int = card.locked["total_steps"] // card.locked["grpo"]["steps_per_round"]
    return len(done) == wanted


def _card(folder: Path, done: list[FinishedRound]) -> Card | None:
    """The card of the adapter in the folder, or of these rounds' last version."""
    if (folder / CARD).is_file():
        return read_card(folder)
    if not done or not any(each.used for each in done):
        return None
    try:
        card = read_card(Path(done[-1].version.folder))
        lock = json.loads((folder / "checkpoints" / MADE_FROM).read_text())["lock"]
    except (ConfigError, OSError, ValueError, KeyError, RecursionError):
        return None  # the version has been removed
    return card if card.lock_digest == lock else None
