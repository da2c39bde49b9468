"""A training on a fixed data set (SFT, DPO): its inputs, output folder and card."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from hermes_lab.durable import hold_folder
from hermes_lab.errors import ConfigError
from hermes_lab.models import weights
from hermes_lab.models.adapters import adapter_digest
from hermes_lab.models.cards import Card, Method
from hermes_lab.models.weights import Say
from hermes_lab.training.adapters import is_finished, write_card
from hermes_lab.training.config import TrainConfig
from hermes_lab.training.lock import LockedConfig, lock_digest
from hermes_lab.training.locked_files import check_locked_files, warn_if_unpinned
from hermes_lab.training.lora import find_parent, library_versions, lora_model, save_adapter, train
from hermes_lab.training.processes import from_first
from hermes_lab.training.tokens import IGNORED, Row
from hermes_lab.training.training_run import TrainingRun, check_made_from, unfinished


class Data(NamedTuple):
    """Training data: digest, number of rows, token sequences, and refusals by reason."""

    digest: str
    rows: int
    sequences: Sequence[Row]
    refused: Mapping[str, int]
    compressed: int = 0

    def sentence(self) -> str:
        """The data in one line."""
        return f"{self.rows} rows, {self._tokens()} tokens, {self._trained()} with a loss"

    def counts(self) -> dict[str, Any]:
        """The card's fields about the data."""
        return {
            "data_digest": self.digest,
            "refused": dict(sorted(self.refused.items())),
            "compressed": self.compressed,
            "rows": self.rows,
            "tokens": self._tokens(),
            "trained_tokens": self._trained(),
        }

    def _tokens(self) -> int:
        return sum(len(row.input_ids) for row in self.sequences)

    def _trained(self) -> int:
        return sum(label != IGNORED for row in self.sequences for label in row.labels)


def check_start(config: TrainConfig, locked: LockedConfig, *, planned: bool = False) -> Path | None:
    """Returns the parent adapter, if any. For a plan (`planned`) no weights are downloaded.

    Raises `ConfigError` if it is missing, if there is nothing to resume, or if base model or tokenizer were changed.
    """
    check_locked_files(locked, planned=planned)
    parent = find_parent(config, locked, planned=planned)
    if config.resume:
        unfinished(config)
    return parent


def check_inputs(config: TrainConfig, locked: LockedConfig, parent: Path | None, data: Data) -> None:
    """Raises `ConfigError` if a planned training would resume one with other inputs. Writes nothing."""
    if config.resume:
        check_made_from(unfinished(config), _made_from(locked, parent, data, weights.present(locked.base_model)))


def _made_from(
    locked: LockedConfig, parent: Path | None, data: Data, base: Path | None, say: Say = weights.silent
) -> dict[str, str]:
    """The digests of the inputs; without that of the base model if it is not on this machine."""
    made_from = {
        "lock": lock_digest(locked),
        "data": data.digest,
        "parent": adapter_digest(parent) if parent else "",
    }
    if base:
        made_from["base model"] = weights.training_digest(locked.base_model, base)
    made_from["tokenizer"] = weights.tokenizer_digest(weights.resolve_tokenizer(locked.tokenizer, say))
    return made_from


class TrainingJob(NamedTuple):
    """One training. `command` is the command line, for the card."""

    method: Method
    config: TrainConfig
    locked: LockedConfig
    base: Path
    parent: Path | None
    data: Data
    training_run: TrainingRun
    command: str

    @classmethod
    @contextmanager
    def begin(
        cls,
        method: Method,
        config: TrainConfig,
        locked: LockedConfig,
        parent: Path | None,
        data: Data,
        say: Say,
        command: str,
    ) -> Iterator["TrainingJob"]:
        """A new training, or with `resume` the unfinished one, which must have the same inputs.

        Within the block no other process can train this version. Raises `ConfigError` if one does, or has just finished
        it.
        """
        warn_if_unpinned(locked, say)
        base = weights.resolve(locked.base_model, say)
        made_from = _made_from(locked, parent, data, base, say)
        with ExitStack() as held:
            training_run = from_first(lambda: _held(TrainingRun.begin(config, made_from), held))
            yield cls(method, config, locked, base, parent, data, training_run, command)

    def model(self) -> Any:
        """The model to train."""
        return lora_model(self.locked, self.base, self.parent)

    def run(self, trainer: Any, model: Any, say: Say) -> Path:
        """Trains, saves the adapter and writes its card. Returns the adapter's folder."""
        train(trainer, model, self.training_run)
        from_first(lambda: self._finish(model, say))
        return self.training_run.folder

    def _finish(self, model: Any, say: Say) -> None:
        save_adapter(model, self.training_run.folder, self.locked)
        card = self._card()
        write_card(self.training_run.folder, card)
        self.training_run.clear()
        say(f"{self.training_run.folder}: {card.sentence()}")

    def _card(self) -> Card:
        steps = self.training_run.rows()
        last = {name: value for name, value in steps[-1].items() if name not in ("step", "seconds")}
        return Card(
            name=self.training_run.folder.name,
            method=self.method,
            digest=adapter_digest(self.training_run.folder),
            base_model=self.locked.base_model,
            base_digest=weights.digest(self.base),
            tokenizer_digest=self.training_run.made_from()["tokenizer"],
            parent=self.parent.name if self.parent else "",
            parent_digest=adapter_digest(self.parent) if self.parent else "",
            lock_digest=lock_digest(self.locked),
            locked=self.locked.content(),
            runs=self.config.data,
            **self.data.counts(),
            steps=steps[-1]["step"],
            metrics=last,
            seconds=round(sum(step["seconds"] for step in steps), 3),
            versions=library_versions(),
            command=self.command,
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        )


def _held(training_run: TrainingRun, held: ExitStack) -> TrainingRun:
    """The training, whose folder is locked until `held` is closed."""
    held.enter_context(hold_folder(training_run.folder, "train.adapters"))
    if is_finished(training_run.folder):
        raise ConfigError(f"resume: {training_run.folder} was finished by another process")
    return training_run
