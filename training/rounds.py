"""The folder of a GRPO training: its inputs, rounds and metrics."""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from hermes_lab.envs.advice import Measured
from hermes_lab.envs.learning.worth import MeanValue
from hermes_lab.errors import ConfigError
from hermes_lab.models.adapters import adapter_digest
from hermes_lab.models.cards import HeldOut
from hermes_lab.records import write_atomic, write_json
from hermes_lab.training.curriculum import FamilyRound, Round, write_history
from hermes_lab.training.training_run import TrainingRun

MADE_FROM = "made_from.json"
STOPPED = "stopped.json"
"""Why a training stopped before its last step: in its folder, and in that of the last version."""


def stopped(folder: Path) -> str:
    """Why a training stopped early, by the record in its folder or in that of its last version; "" if it did not."""
    try:
        return str(json.loads((folder / STOPPED).read_text())["why"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ""


class Policy(msgspec.Struct, frozen=True):
    """The policy that samples a round and is trained on it: an adapter's folder, or "" for the base model. `digest`
    identifies it in groups."""

    folder: str
    digest: str

    @property
    def name(self) -> str:
        """The version, or the base model."""
        return Path(self.folder).name or self.digest


class FinishedRound(msgspec.Struct, frozen=True, kw_only=True):
    """A finished round. `version` is the resulting policy; without a usable group it is the sampling policy.

    `steps` counts optimiser steps since the start of the training; `used` and `refused` count groups, `left_out` the
    sequences of used groups without a gradient (`hermes_lab.envs.groups.one_sequence_each`); `reward` is the mean over
    all rollouts, `length` their mean number of sampled tokens, `measured` how they ended (None in older trainings),
    `families` the groups and the success of each family, if the training has families, `reviews` the mean over the
    reviews of learning episodes, if it trains on any."""

    round: int
    policy: Policy
    version: Policy
    steps: int
    used: int
    refused: dict[str, int]
    left_out: int = 0
    reward: float
    length: float
    seconds: float
    measured: Measured | None = None
    families: dict[str, FamilyRound] = {}
    reviews: MeanValue | None = None


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """A held-out evaluation of the policy after `step` optimiser steps, over the judged tasks.

    `heldout_low` and `heldout_high` are the 95 % Wilson interval, over worlds if there are enough; None in older
    trainings."""

    step: int
    policy: str
    heldout_success: float
    heldout_tasks: int
    heldout_unscored: int = 0
    heldout_low: float | None = None
    heldout_high: float | None = None

    @property
    def on_card(self) -> HeldOut:
        """As it is on the cards of later versions."""
        return HeldOut(
            step=self.step,
            success=self.heldout_success,
            tasks=self.heldout_tasks,
            low=self.heldout_low,
            high=self.heldout_high,
        )


class Rounds:
    """The folder of a training: `round-<n>/`, `heldout-<step>/`, `checkpoints/`, `metrics.jsonl`."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.checkpoints = out / "checkpoints"
        self.log = out / "server.log"
        self._metrics = out / "metrics.jsonl"

    @property
    def begun(self) -> bool:
        """Whether the folder contains a training."""
        return (self.checkpoints / MADE_FROM).exists()

    @classmethod
    def begin(cls, out: Path, made_from: Mapping[str, str], *, resume: bool) -> "Rounds":
        """A new training, or with `resume` the existing one, which must have the same inputs.

        `made_from` maps inputs (lock, parent, gate, ...) to digests or names. Raises `ConfigError` if there is nothing
        to resume, something to overwrite, or an input differs.
        """
        cls.check_inputs(out, made_from, resume=resume)
        if not resume:
            write_json(out / "checkpoints" / MADE_FROM, made_from)
        return cls(out)

    @staticmethod
    def check_inputs(out: Path, made_from: Mapping[str, str], *, resume: bool, unknown: Sequence[str] = ()) -> None:
        """Raises `ConfigError` as `begin` does, and writes nothing. Inputs that are `unknown` are not compared."""
        path = out / "checkpoints" / MADE_FROM
        if not resume:
            if path.exists():
                raise ConfigError(
                    f"out: {out} already contains a training; continue it with --resume, or give another out"
                )
            return
        try:
            before = json.loads(path.read_text())
        except (OSError, ValueError, RecursionError):
            raise ConfigError(f"resume: {out} contains no training; start without resume") from None
        for part in [*made_from, *before]:
            if part not in unknown and before.get(part, "") != made_from.get(part, ""):
                raise ConfigError(f"resume: {out} was started with another {part}; start without resume")

    def folder(self, number: int) -> Path:
        """The folder of a round."""
        return self.out / f"round-{number}"

    def records(self) -> Iterator[FinishedRound]:
        """The finished rounds in order, as they were recorded. Raises `msgspec.DecodeError` at a damaged record."""
        for number in count(1):
            if not (path := self.record_of(number)).is_file():
                return
            yield msgspec.json.decode(path.read_bytes(), type=FinishedRound)

    def record_of(self, number: int) -> Path:
        """The record of a finished round."""
        return self.folder(number) / "done.json"

    def done(self) -> list[FinishedRound]:
        """The finished rounds. Raises `ConfigError` if the last one's version was changed since."""
        found = list(self.records())
        if found and (version := found[-1].version).folder and adapter_digest(Path(version.folder)) != version.digest:
            raise ConfigError(f"resume: {version.folder} is not the adapter that round {len(found)} made")
        return found

    def finish(self, done: FinishedRound) -> None:
        """Records a finished round."""
        write_json(self.record_of(done.round), done)

    def check(self, step: int) -> Check | None:
        """The evaluation at that step, if it is finished."""
        path = self._check_folder(step) / "check.json"
        return msgspec.json.decode(path.read_bytes(), type=Check) if path.exists() else None

    def checks(self) -> list[Check]:
        """All finished evaluations, by step."""
        found = [msgspec.json.decode(path.read_bytes(), type=Check) for path in self.out.glob("heldout-*/check.json")]
        return sorted(found, key=lambda check: check.step)

    def check_run(self, step: int) -> Path:
        """The run folder of an evaluation."""
        return self._check_folder(step) / "run"

    def finish_check(self, check: Check) -> None:
        """Records a finished evaluation."""
        write_json(self._check_folder(check.step) / "check.json", check)

    def stop(self, why: str, done: FinishedRound) -> None:
        """Records why the training stops after a round."""
        content = {"why": why, "round": done.round, "step": done.steps}
        for folder in (self.out, *([Path(done.version.folder)] if done.steps else [])):
            write_json(folder / STOPPED, content)

    def write_metrics(self) -> None:
        """Writes the steps of all finished rounds and the evaluations, in order."""
        rows: list[dict[str, Any]] = []
        for done in self.done():
            if done.used:
                rows += TrainingRun(Path(done.version.folder)).rows()
        rows += [msgspec.to_builtins(check) for check in self.checks()]
        rows.sort(key=lambda row: row["step"])
        write_atomic(self._metrics, "".join(json.dumps(row) + "\n" for row in rows))

    def _check_folder(self, step: int) -> Path:
        return self.out / f"heldout-{step}"


class RoundTraining(TrainingRun):
    """The training run of a round's version. Checkpoints are shared by all rounds; `constants` are added to every line
    of the metrics. `history` has the families of all rounds up to this one, if the training has families."""

    def __init__(
        self, folder: Path, lock: str, checkpoints: Path, constants: Mapping[str, Any], history: Sequence[Round] = ()
    ) -> None:
        super().__init__(folder, lock)
        self.checkpoints = checkpoints
        self._made_from = checkpoints / MADE_FROM
        self._constants = constants
        self._history = history

    def log(self, metrics: Mapping[str, Any]) -> None:
        """Appends one line."""
        super().log({**metrics, **self._constants})

    def write_manifest(self, step: int) -> None:
        """Adds the families of all rounds, then the manifest."""
        if self._history:
            write_history(self.checkpoints / f"checkpoint-{step}", self._history)
        super().write_manifest(step)

    def _instead(self, newest: Path, older: Sequence[Path]) -> str:
        """Nothing: the finished rounds go on from the newest checkpoint, and an older one does not fit them."""
        del newest, older
        return ""

    def last_step(self) -> int:
        """The step of the newest complete checkpoint, or 0."""
        checkpoint = self.last_checkpoint()
        return int(checkpoint.name.rpartition("-")[2]) if checkpoint else 0
