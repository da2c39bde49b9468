"""A GRPO training with resolved inputs, and its sampler."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, Protocol

from hermes_lab.config.digest import config_digest
from hermes_lab.models import weights
from hermes_lab.models.adapters import adapter_digest
from hermes_lab.models.cards import values_digest
from hermes_lab.models.weights import Say
from hermes_lab.records import read_episodes
from hermes_lab.training.curriculum import check_history
from hermes_lab.training.grpo_config import (
    Batch,
    GrpoConfig,
    curriculum_lock,
    grpo_lock,
    heldout_batch,
    reviews_lock,
    training_batch,
)
from hermes_lab.training.lock import GrpoLock, LockedConfig, lock_digest
from hermes_lab.training.locked_files import base_folder, check_locked_files, warn_if_unpinned
from hermes_lab.training.lora import find_parent
from hermes_lab.training.rounds import FinishedRound, Policy, Rounds, RoundTraining
from hermes_lab.training.select import task_digest


class Sampler(Protocol):
    """Collects rollouts and owns the inference server."""

    def collect(self, batch: Batch) -> None:
        """Runs the rollouts missing from the batch's folder. Some may stay errored. Raises `KeyboardInterrupt`."""
        ...

    def rest(self) -> None:
        """Leaves the GPU to the steps, if the training says so; the next `collect` takes it back."""
        ...

    def retire(self, version: Path) -> None:
        """Unloads a superseded version from the server."""
        ...


OpenSampler = Callable[[LockedConfig, Path], AbstractContextManager[Sampler]]
"""Opens a sampler; the server it starts logs to the given path."""


class GrpoRun(NamedTuple):
    """A training with resolved inputs."""

    config: GrpoConfig
    locked: LockedConfig
    grpo: GrpoLock
    base: Path
    start: Policy
    rounds: Rounds
    held_out: frozenset[str]
    command: str

    @property
    def wanted(self) -> int:
        """Rounds of the whole training."""
        return self.locked.total_steps // self.grpo.steps_per_round

    @property
    def families(self) -> list[str]:
        """The names of the families; one, "", without any."""
        return list(self.config.families) or [""]

    def policy(self, done: list[FinishedRound]) -> Policy:
        """The newest version, or before the first one the policy that the training starts from."""
        return done[-1].version if done else self.start


def prepare(config: GrpoConfig, locked: LockedConfig, say: Say, command: str) -> GrpoRun:
    """Resolves the inputs and begins, or with `resume` continues, the folder of the training.

    Raises `ConfigError` for an input that is invalid, or not that of the training to resume.
    """
    out = Path(config.out)
    start, made_from, held_out = check_inputs(config, locked, say)
    base = weights.resolve(locked.base_model, say)
    rounds = Rounds.begin(out, made_from, resume=config.resume)
    if config.resume and config.families:
        checkpoint = RoundTraining(out, config.lock, rounds.checkpoints, {}).last_checkpoint()
        if checkpoint:
            check_history(checkpoint, [each.families for each in rounds.done()])
    return GrpoRun(config, locked, grpo_lock(config, locked), base, start, rounds, held_out, command)


def check_inputs(
    config: GrpoConfig, locked: LockedConfig, say: Say, *, planned: bool = False
) -> tuple[Policy, dict[str, str], frozenset[str]]:
    """The policy that the training starts from, its inputs by name with their digests, and the digests of held-out
    tasks. Writes nothing.

    Raises `ConfigError` for an input that is invalid, not that of the training to resume, or that would overwrite one.
    For a plan (`planned`) no weights are downloaded, and only those that are here are compared.
    """
    grpo_lock(config, locked)
    reviews_lock(config, locked)
    out, held_out = Path(config.out), held_out_digests(config)
    made_from = {
        "lock": lock_digest(locked),
        "rollouts": "" if config.families else config_digest(training_batch(config, locked, 1, "", out).config),
        "families": _families_digest(config, locked) if config.families else "",
        "heldout": config_digest(heldout_batch(config, locked, "", out).config) if config.heldout else "",
        "objective": "" if config.objective == "solve" else config.objective,
        "gate": values_digest({"splits": sorted(config.gate.splits), "held_out": sorted(held_out)}),
        "name": config.name,
        "adapters": str(Path(config.adapters)),
    }
    warn_if_unpinned(locked, say)
    check_locked_files(locked, say, planned=planned)
    parent = find_parent(config, locked, planned=planned)
    base = base_folder(locked, say, planned=planned)
    start = Policy(str(parent), adapter_digest(parent)) if parent else Policy("", locked.base_model)
    made_from["parent"] = start.digest
    if base:
        made_from["base model"] = weights.training_digest(locked.base_model, base)
    made_from["tokenizer"] = weights.tokenizer_digest(weights.resolve_tokenizer(locked.tokenizer, say))
    Rounds.check_inputs(out, made_from, resume=config.resume, unknown=() if base else ("base model",))
    return start, made_from, held_out


def held_out_digests(config: GrpoConfig) -> frozenset[str]:
    """The digests of the tasks in the runs of `gate.held_out`."""
    return frozenset(task_digest(e) for run in config.gate.held_out for e in read_episodes(Path(run)))


def _families_digest(config: GrpoConfig, locked: LockedConfig) -> str:
    """sha256 of the families, in their order, with the configurations of their rollouts."""
    curriculum_lock(config, locked)
    digests = [
        [family, config_digest(training_batch(config, locked, 1, "", Path(), family).config)]
        for family in config.families
    ]
    return values_digest({"families": digests})
