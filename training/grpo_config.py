"""The configuration of a GRPO training, and of its rollout and evaluation runs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from hermes_lab.config.paths import OutputPath, Source
from hermes_lab.config.schema import RunConfig
from hermes_lab.errors import ConfigError
from hermes_lab.training.attempts import locked_evaluation_config, locked_run_config
from hermes_lab.training.config import Training, load_training
from hermes_lab.training.lock import HOW_TO_CHANGE, GrpoLock, LockedConfig

_NO_LEARNING = ("off", "frozen", "oracle")


class GrpoConfig(Training):
    """A GRPO training. Each round makes a version `<name>-v<N>` of the adapter."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")] = "grpo"
    """The adapter's name."""
    out: OutputPath = "runs/grpo"
    """Output folder for rollouts, groups, checkpoints and metrics."""
    rollouts: Annotated[tuple[Source, ...], Field(min_length=1)]
    """The run that generates rollouts: YAML files and `key=value` overrides, as for `experiment`. Tasks are divided
    among its `learning.arms` and `learning.worlds`; each round has new worlds, starting at `suite.world`."""
    turns: Literal["none", "sleep", "stop"] = "none"
    """How the server and the optimiser steps share a GPU. `sleep`: vLLM sleeps while steps are taken, and keeps its
    weights in the machine's memory; `stop`: it is stopped, and started again for the next rollouts; `none`: they do not
    share one."""
    server_gpu: Annotated[int, Field(ge=0)] | None = None
    """The GPU of a server that the training starts; the steps run on the first visible one. null: the same."""
    heldout: tuple[Source, ...] = ()
    """The run that evaluates versions, in the same format; empty: none."""


class Sharing(NamedTuple):
    """How the server and the steps share GPUs: `turns` and `server_gpu` of a training."""

    turns: Literal["none", "sleep", "stop"] = "none"
    server_gpu: int | None = None


NOT_SHARED = Sharing()


class Batch(NamedTuple):
    """Rollouts to collect: `samples` per task of `tasks` tasks, drawn from worlds starting at `first_world`, in the run
    folder `folder`."""

    config: RunConfig
    tasks: int
    samples: int
    first_world: int
    folder: Path


def load_grpo_config(sources: Sequence[str]) -> GrpoConfig:
    """YAML files and `key=value` overrides; raises `ConfigError` for an attempt to set a locked field."""
    return load_training(GrpoConfig, sources)


def grpo_lock(config: GrpoConfig, locked: LockedConfig) -> GrpoLock:
    """The lock's GRPO section. Raises `ConfigError` if it has none."""
    if locked.grpo is None:
        raise ConfigError(f"{config.lock}: it has no section grpo; {HOW_TO_CHANGE}")
    return locked.grpo


def training_batch(config: GrpoConfig, locked: LockedConfig, number: int, adapter: str, folder: Path) -> Batch:
    """The rollouts of a round (from 1), with the locked sampling."""
    grpo = grpo_lock(config, locked)
    run = locked_run_config(config.rollouts, locked, config.lock)
    _check("rollouts", run)
    run = _served(run, locked, adapter)
    suite = run.suite.model_copy(update={"seed": locked.seed + number})
    samples = run.run.model_copy(update={"seed": locked.seed + number, "out": ""})
    return Batch(
        run.model_copy(update={"suite": suite, "run": samples}),
        tasks=grpo.groups_per_round,
        samples=grpo.group_size,
        first_world=run.suite.world + (number - 1) * run.learning.worlds,
        folder=folder,
    )


def heldout_batch(config: GrpoConfig, locked: LockedConfig, adapter: str, folder: Path) -> Batch:
    """The rollouts of an evaluation: always the same tasks, one sample each, at the temperature of `heldout`."""
    grpo = grpo_lock(config, locked)
    run = locked_evaluation_config(config.heldout, locked, config.lock)
    run = run.model_copy(update={"run": run.run.model_copy(update={"samples": 1, "out": ""})})
    _check("heldout", run)
    if run.suite.split in config.gate.splits:
        raise ConfigError(f"heldout: suite.split {run.suite.split!r} is trained on; give another split")
    tasks = max(1, round(grpo.eval_limit_ratio * grpo.groups_per_round * grpo.group_size))
    return Batch(_served(run, locked, adapter), tasks, samples=1, first_world=run.suite.world, folder=folder)


def _check(field: str, run: RunConfig) -> None:
    if learning := [arm for arm in run.learning.arms if arm not in _NO_LEARNING]:
        raise ConfigError(f"{field}: learning.arms {learning[0]!r} changes its library; give {', '.join(_NO_LEARNING)}")


def _served(run: RunConfig, locked: LockedConfig, adapter: str) -> RunConfig:
    """The run with the model in training, at the locked server."""
    model = run.model.model_copy(
        update={
            "provider": "openai",
            "name": locked.base_model,
            "base_url": locked.rollout_server_url,
            "adapter": adapter,
            "merge": False,
            "token_ids": True,
        }
    )
    return run.model_copy(update={"model": model})
