"""A GRPO training with resolved inputs, and its sampler."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, Protocol

from hermes_lab.config.schema import config_digest
from hermes_lab.models import weights
from hermes_lab.models.adapters import adapter_digest
from hermes_lab.models.cards import values_digest
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
from hermes_lab.training.locked_files import check_locked_files, warn_if_unpinned
from hermes_lab.training.lora import Say, find_parent
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
    grpo = grpo_lock(config, locked)
    reviews_lock(config, locked)
    out = Path(config.out)
    held_out = frozenset(task_digest(e) for run in config.gate.held_out for e in read_episodes(Path(run)))
    # Report errors in the run configurations before writing anything.
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
    check_locked_files(locked, say)
    parent = find_parent(config, locked)
    base = weights.resolve(locked.base_model, say)
    start = Policy(str(parent), adapter_digest(parent)) if parent else Policy("", locked.base_model)
    made_from |= {"parent": start.digest, "base model": weights.training_digest(locked.base_model, base)}
    made_from |= {"tokenizer": weights.tokenizer_digest(weights.resolve(locked.tokenizer, say))}
    rounds = Rounds.begin(out, made_from, resume=config.resume)
    if config.resume and config.families:
        checkpoint = RoundTraining(out, config.lock, rounds.checkpoints, {}).last_checkpoint()
        if checkpoint:
            check_history(checkpoint, [each.families for each in rounds.done()])
    return GrpoRun(config, locked, grpo, base, start, rounds, held_out, command)


def _families_digest(config: GrpoConfig, locked: LockedConfig) -> str:
    """sha256 of the families, in their order, with the configurations of their rollouts."""
    curriculum_lock(config, locked)
    digests = [
        [family, config_digest(training_batch(config, locked, 1, "", Path(), family).config)]
        for family in config.families
    ]
    return values_digest({"families": digests})
