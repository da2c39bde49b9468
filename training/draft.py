"""An adapter that is being trained: its checkpoints, its log, and what it is made from."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hermes_lab.errors import ConfigError
from hermes_lab.records import write_atomic, write_json
from training.adapters import is_finished, new_version, versions
from training.config import TrainConfig


class Draft:
    """The folder of one version until its card is written.

    `checkpoints/` holds what a resume needs and goes when training ends; `metrics.jsonl` stays.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.checkpoints = folder / "checkpoints"
        self.metrics = folder / "metrics.jsonl"
        self._made_from = self.checkpoints / "made_from.json"

    @classmethod
    def begin(cls, config: TrainConfig, made_from: Mapping[str, str]) -> "Draft":
        """A new version, or with `resume` the newest one, which must be made from the same things.

        `made_from` maps what decides the training (lock, data, ...) to its digest. Raises `ConfigError`
        where there is nothing to resume, or one of the digests differs.
        """
        root = Path(config.adapters)
        if not config.resume:
            draft = cls(new_version(root, config.name))
            write_json(draft._made_from, made_from)
            return draft
        unfinished = [folder for folder in versions(root, config.name)[-1:] if not is_finished(folder)]
        if not unfinished:
            raise ConfigError(f"resume: the newest {config.name} in {root} is finished, or there is none")
        draft = cls(unfinished[0])
        draft._check(made_from)
        return draft

    def _check(self, made_from: Mapping[str, str]) -> None:
        try:
            before = json.loads(self._made_from.read_text())
        except (OSError, ValueError):
            raise ConfigError(f"resume: {self.folder} never began; start without resume") from None
        for part, digest in made_from.items():
            if before.get(part) != digest:
                raise ConfigError(f"resume: {self.folder} was begun with another {part}; start without resume")

    def last_checkpoint(self) -> Path | None:
        """The newest whole checkpoint: the trainer writes its state last, so one without it is torn."""
        whole = [path.parent for path in self.checkpoints.glob("checkpoint-*/trainer_state.json")]
        return max(whole, key=_step, default=None)

    def rewind(self, checkpoint: Path | None) -> None:
        """Drops the metrics of steps that will be made again."""
        if not self.metrics.exists():
            return
        last = _step(checkpoint) if checkpoint else 0
        lines = [line for line in self.metrics.read_text().splitlines(keepends=True) if line.endswith("\n")]
        write_atomic(self.metrics, "".join(line for line in lines if json.loads(line)["step"] <= last))

    def log(self, metrics: Mapping[str, Any]) -> None:
        """Appends one line."""
        with self.metrics.open("a") as file:
            file.write(json.dumps(metrics) + "\n")

    def rows(self) -> list[dict[str, Any]]:
        """All metrics, a step each."""
        return [json.loads(line) for line in self.metrics.read_text().splitlines()]

    def clear(self) -> None:
        """Removes what only a resume needs."""
        shutil.rmtree(self.checkpoints)


def _step(checkpoint: Path) -> int:
    return int(checkpoint.name.rpartition("-")[2])
