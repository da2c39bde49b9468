"""A training in progress: checkpoints, metrics and inputs of an adapter version."""

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hermes_lab.errors import ConfigError
from hermes_lab.records import write_atomic, write_json
from hermes_lab.training.adapters import is_finished, new_version, versions
from hermes_lab.training.checkpoint_manifest import SEAL, check_manifest, write_manifest
from hermes_lab.training.config import TrainConfig

_CHECKPOINTS, _MADE_FROM = "checkpoints", "made_from.json"


class TrainingRun:
    """The folder of an adapter version in training.

    `checkpoints/` is only needed to resume and is removed after training; `metrics.jsonl` is kept.
    """

    def __init__(self, folder: Path, lock: str = "") -> None:
        self.folder = folder
        self.lock = lock
        self.checkpoints = folder / _CHECKPOINTS
        self.metrics = folder / "metrics.jsonl"
        self._made_from = self.checkpoints / _MADE_FROM

    @classmethod
    def begin(cls, config: TrainConfig, made_from: Mapping[str, str]) -> "TrainingRun":
        """A new version, or with `resume` the newest unfinished one, which must have the same inputs.

        `made_from` maps inputs (lock, data, ...) to digests. Raises `ConfigError` if there is nothing to resume, or a
        digest differs.
        """
        root = Path(config.adapters)
        if not config.resume:
            training_run = cls(new_version(root, config.name), config.lock)
            write_json(training_run._made_from, made_from)
            return training_run
        training_run = cls(unfinished(config), config.lock)
        check_made_from(training_run.folder, made_from)
        if not training_run._made_from.exists():
            write_json(training_run._made_from, made_from)
        return training_run

    def last_checkpoint(self) -> Path | None:
        """The newest complete checkpoint. The manifest is written last, so a checkpoint without one is incomplete.

        Raises `ConfigError` if it does not match its manifest, with the one to continue from instead, if there is one.
        """
        sealed = [path.parent for path in self.checkpoints.glob(f"checkpoint-*/{SEAL}")]
        found = sorted(filter(_is_checkpoint, sealed), key=_step)
        if not found:
            return None
        *older, newest = found
        try:
            check_manifest(newest, self.made_from(), self.lock)
        except ConfigError as error:
            raise ConfigError(f"{error}{self._instead(newest, older)}") from None
        return newest

    def _instead(self, newest: Path, older: Sequence[Path]) -> str:
        """Which checkpoint to continue from instead of the newest, or ""."""
        whole = next(filter(self._is_whole, reversed(older)), None)
        return f", or delete {newest} to continue from {whole.name}, which is whole" if whole else ""

    def _is_whole(self, checkpoint: Path) -> bool:
        try:
            check_manifest(checkpoint, self.made_from(), self.lock)
        except ConfigError:
            return False
        return True

    def write_manifest(self, step: int) -> None:
        """Writes the manifest that marks the checkpoint of a step as complete."""
        write_manifest(self.checkpoints / f"checkpoint-{step}", self.made_from())

    def made_from(self) -> dict[str, str]:
        """The digests of the inputs (lock, data, ...)."""
        content: dict[str, str] = json.loads(self._made_from.read_text())
        return content

    def rewind(self, checkpoint: Path | None) -> None:
        """Drops the metrics of steps after the checkpoint, which will be repeated."""
        if not self.metrics.exists():
            return
        last = _step(checkpoint) if checkpoint else 0
        lines = [line for line in self.metrics.read_text().splitlines(keepends=True) if line.endswith("\n")]
        write_atomic(self.metrics, "".join(line for line in lines if json.loads(line)["step"] <= last))

    def log(self, metrics: Mapping[str, Any]) -> None:
        """Appends one line of metrics."""
        with self.metrics.open("a") as file:
            file.write(json.dumps(metrics) + "\n")

    def rows(self) -> list[dict[str, Any]]:
        """All metrics, one row per step; empty if the folder was removed."""
        if not self.metrics.exists():
            return []
        return [json.loads(line) for line in self.metrics.read_text().splitlines()]

    def clear(self) -> None:
        """Removes the checkpoints."""
        shutil.rmtree(self.checkpoints)


def check_made_from(folder: Path, made_from: Mapping[str, str]) -> None:
    """Raises `ConfigError` if an unfinished version was started with other inputs than `made_from`. Writes nothing."""
    if not any(folder.iterdir()):  # killed right after creating the folder
        return
    try:
        before = json.loads((folder / _CHECKPOINTS / _MADE_FROM).read_text())
    except (OSError, ValueError):
        raise ConfigError(f"resume: {folder} never started; start without resume") from None
    for part, digest in made_from.items():
        if before.get(part) != digest:
            raise ConfigError(f"resume: {folder} was started with another {part}; start without resume")


def unfinished(config: TrainConfig) -> Path:
    """The version to resume: the newest unfinished one. Raises `ConfigError` if there is none."""
    found = [folder for folder in versions(Path(config.adapters), config.name) if not is_finished(folder)]
    if not found:
        raise ConfigError(f"resume: every version of {config.name} in {config.adapters} is finished, or there is none")
    return found[-1]


def _is_checkpoint(folder: Path) -> bool:
    """Whether the name is one that the trainer gives, and not that of a copy."""
    return re.fullmatch(r"checkpoint-\d+", folder.name) is not None


def _step(checkpoint: Path) -> int:
    return int(checkpoint.name.rpartition("-")[2])
