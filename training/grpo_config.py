"""The configuration of a GRPO training, and of its rollout and evaluation runs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, get_args
from urllib.parse import urlsplit

from pydantic import Field

from hermes_lab.config.paths import OutputPath, Source
from hermes_lab.config.schema import Arm, ModelConfig, RunConfig
from hermes_lab.envs.learning.config import Objective, ReviewWorth, check_learning
from hermes_lab.envs.learning.lanes import Draw
from hermes_lab.errors import ConfigError
from hermes_lab.lane import LEARNING_ARMS
from hermes_lab.training.config import Training, load_training
from hermes_lab.training.lock import HOW_TO_CHANGE, CurriculumLock, GrpoLock, LockedConfig
from hermes_lab.training.lock_enforcement import locked_evaluation_config, locked_run_config

Turns = Literal["none", "sleep", "stop", "merge"]
_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"


class GrpoConfig(Training):
    """A GRPO training. Each round makes a version `<name>-v<N>` of the adapter."""

    name: Annotated[str, Field(pattern=_NAME)] = "grpo"
    """The adapter's name."""
    out: OutputPath = "runs/grpo"
    """Output folder for rollouts, groups, checkpoints and metrics."""
    rollouts: Annotated[tuple[Source, ...], Field(min_length=1)]
    """The run that generates rollouts: YAML files and `key=value` overrides, as for `experiment`. Tasks are divided
    among its `learning.arms` and `learning.worlds`; each round has new worlds, starting at `suite.world`."""
    families: dict[Annotated[str, Field(pattern=_NAME)], tuple[Source, ...]] = Field(default={})
    """Families of tasks by name, each as sources that are added to `rollouts`: `ledger: [suite.name=ledger]`. The
    lock's section `curriculum` chooses among them by their success rates. Empty: `rollouts` alone."""
    objective: Objective = "solve"
    """What is trained: solving tasks (`solve`), writing skills that help later (`review`), or both from the same
    learning episodes. `review` and `both` need a lock with a section `reviews`, and `learning.arms=[on]` in
    `rollouts`."""
    turns: Turns = "none"
    """How the server and the optimiser steps take turns. `sleep`: vLLM sleeps while steps are taken, and keeps its
    weights in the machine's memory; `stop`: it is stopped, and started again for the next rollouts; `merge`: as `stop`,
    and it serves the weights with the adapter merged into them, several times faster on a CPU; `none`: they do not."""
    server_gpu: Annotated[int, Field(ge=0)] | None = None
    """The GPU of a server that the training starts; the steps run on the first visible one. null: the same."""
    heldout: tuple[Source, ...] = ()
    """The run that evaluates versions, in the same format; empty: none."""


class Sharing(NamedTuple):
    """How the server and the steps share GPUs: `turns` and `server_gpu` of a training."""

    turns: Turns = "none"
    server_gpu: int | None = None


NOT_SHARED = Sharing()


def unshared(locked: LockedConfig, turns: str, server_gpu: int | None) -> str:
    """Why the training starts no server with a lock for a GPU: it would take the memory of the steps' GPU; else ""."""
    if locked.hardware is None or turns != "none" or server_gpu is not None:
        return ""
    return (
        "turns: none, but server and steps would share a GPU, whose memory the server takes: give turns=sleep (or "
        "turns=stop), or server_gpu=1 if there are two GPUs"
    )


class Batch(NamedTuple):
    """Rollouts to collect: `samples` per task of `tasks` tasks, drawn from worlds starting at `first_world`, in the run
    folder `folder`. With `reviews`, `tasks` are learning episodes with `samples` reviews of each finished task."""

    config: RunConfig
    tasks: int
    samples: int
    first_world: int
    folder: Path
    reviews: ReviewWorth | None = None

    @property
    def draw(self) -> Draw:
        """The tasks of the learning episodes."""
        suite = self.config.suite
        return Draw(suite.split, suite.seed, self.first_world, self.config.learning.worlds, self.tasks)


def load_grpo_config(sources: Sequence[str]) -> GrpoConfig:
    """YAML files and `key=value` overrides; raises `ConfigError` for an attempt to set a locked field."""
    config = load_training(GrpoConfig, sources)
    if config.turns == "merge" and config.server_gpu is not None:
        raise ConfigError(
            "server_gpu: has no effect with turns=merge, whose server is stopped before the steps; remove it"
        )
    return config


def refuse_compression(config: GrpoConfig) -> None:
    """Raises `ConfigError` if conversations are to be shortened."""
    if config.gate.compress:
        raise ConfigError("gate.compress: not supported by GRPO, which trains on the sampled tokens")


def grpo_lock(config: GrpoConfig, locked: LockedConfig) -> GrpoLock:
    """The lock's GRPO section. Raises `ConfigError` if it has none."""
    if locked.grpo is None:
        raise ConfigError(f"{config.lock}: it has no section grpo; {HOW_TO_CHANGE}")
    return locked.grpo


def curriculum_lock(config: GrpoConfig, locked: LockedConfig) -> CurriculumLock:
    """The lock's curriculum. Raises `ConfigError` if it has none."""
    if locked.curriculum is None:
        raise ConfigError(f"families: {config.lock} has no section curriculum to choose by; {HOW_TO_CHANGE}")
    return locked.curriculum


def reviews_lock(config: GrpoConfig, locked: LockedConfig) -> ReviewWorth | None:
    """The lock's learning episodes; None if only solving is trained. Raises `ConfigError` if they do not fit."""
    if config.objective == "solve":
        return None
    worth, grpo = locked.reviews, grpo_lock(config, locked)
    if worth is None:
        raise ConfigError(
            f"objective: {config.lock} has no section reviews, which says what a review is paid; {HOW_TO_CHANGE}"
        )
    if config.families:
        raise ConfigError(f"families: not supported with objective={config.objective}; leave them out")
    if grpo.groups_per_round % worth.tasks:
        raise ConfigError(
            f"{config.lock}: grpo.groups_per_round is {grpo.groups_per_round}, not a multiple of reviews.tasks "
            f"{worth.tasks}: every task of a learning episode gives a group; {HOW_TO_CHANGE}"
        )
    if config.objective == "both" and worth.repeats != grpo.group_size:
        raise ConfigError(
            f"{config.lock}: reviews.repeats is {worth.repeats} and grpo.group_size {grpo.group_size}; objective=both "
            f"trains on the repeats of a follow-up as one group, so they must be equal; {HOW_TO_CHANGE}"
        )
    return worth


def training_batch(
    config: GrpoConfig, locked: LockedConfig, number: int, adapter: str, folder: Path, family: str = ""
) -> Batch:
    """The rollouts of a round (from 1), or those of one family of it, with the locked sampling.

    Every round, and every family in it, has worlds of its own.
    """
    grpo, names = grpo_lock(config, locked), list(config.families) or [""]
    reviews = reviews_lock(config, locked)
    run = locked_run_config((*config.rollouts, *config.families.get(family, ())), locked, config.lock)
    field = f"families.{family}" if family else "rollouts"
    _check(field, run, learns=reviews is not None)
    if run.suite.split not in config.gate.splits:
        raise ConfigError(
            f"{field}: suite.split {run.suite.split!r} is not in gate.splits ({', '.join(config.gate.splits)}), so no "
            "group could be trained on; give another split"
        )
    run = _served(run, locked, adapter, merge=config.turns == "merge")
    suite = run.suite.model_copy(update={"seed": locked.seed + number})
    samples = run.run.model_copy(update={"seed": locked.seed + number, "out": ""})
    turn = (number - 1) * len(names) + names.index(family)
    return Batch(
        run.model_copy(update={"suite": suite, "run": samples}),
        tasks=grpo.groups_per_round // (reviews.tasks if reviews else 1),
        samples=grpo.group_size,
        first_world=run.suite.world + turn * run.learning.worlds,
        folder=folder,
        reviews=reviews,
    )


def round_batches(
    config: GrpoConfig, locked: LockedConfig, number: int, adapter: str, folder: Path, groups: Mapping[str, int]
) -> list[Batch]:
    """The rollouts of a round, in the run folders of `folder`. `groups` is their number by family; "" without
    families. With learning episodes there are as many groups as whole ones give, at least that number."""
    return [
        batch._replace(tasks=-(-count // batch.reviews.tasks) if batch.reviews else count)
        for family, count in groups.items()
        for batch in [training_batch(config, locked, number, adapter, folder / run_name(family), family)]
    ]


def run_name(family: str) -> str:
    """The run folder of a family in that of a round."""
    return f"run-{family}" if family else "run"


def heldout_batch(config: GrpoConfig, locked: LockedConfig, adapter: str, folder: Path) -> Batch:
    """The rollouts of an evaluation: always the same tasks, one sample each, at the temperature of `heldout`."""
    grpo = grpo_lock(config, locked)
    run = locked_evaluation_config(config.heldout, locked, config.lock)
    run = run.model_copy(update={"run": run.run.model_copy(update={"samples": 1, "out": ""})})
    _check("heldout", run)
    if run.suite.split in config.gate.splits:
        raise ConfigError(f"heldout: suite.split {run.suite.split!r} is trained on; give another split")
    tasks = max(1, round(grpo.eval_limit_ratio * grpo.groups_per_round * grpo.group_size))
    run = _served(run, locked, adapter, merge=config.turns == "merge")
    return Batch(run, tasks, samples=1, first_world=run.suite.world, folder=folder)


def _check(field: str, run: RunConfig, *, learns: bool = False) -> None:
    if learns:
        try:
            check_learning(run)
        except ConfigError as error:
            raise ConfigError(f"{field}: {error}") from None
        if run.learning.arms != ("on",):
            raise ConfigError(f"{field}: learning.arms: reviews whose skills are emptied teach nothing; give [on]")
        return
    if run.env.knowledge != "none" and run.learning.arms != ("off",):
        raise ConfigError(
            f"{field}: env.knowledge `{run.env.knowledge}` and learning.arms both decide which skills a rollout has; "
            "add learning.arms=[off], or env.knowledge=none"
        )
    if learning := [arm for arm in run.learning.arms if arm in LEARNING_ARMS]:
        fixed = ", ".join(arm for arm in get_args(Arm) if arm not in LEARNING_ARMS)
        raise ConfigError(f"{field}: learning.arms {learning[0]!r} changes its library; give {fixed}")


def context_length(model: ModelConfig, locked: LockedConfig) -> int:
    """The context of a server, in tokens, which the rollouts that the lock trains on fit into."""
    return max(model.server.max_model_len, locked.max_token_length)


def _served(run: RunConfig, locked: LockedConfig, adapter: str, *, merge: bool) -> RunConfig:
    """The run with the model in training, at the locked server; with `merge`, on a server of its own at its port."""
    port = urlsplit(locked.rollout_server_url).port
    own = {"port": port, "args": (), "max_model_len": context_length(run.model, locked)}
    server = own if merge else {}
    model = run.model.model_copy(
        update={
            "provider": "vllm" if merge else "openai",
            "name": locked.base_model,
            "base_url": locked.rollout_server_url,
            "adapter": adapter,
            "merge": merge,
            "token_ids": True,
            "server": run.model.server.model_copy(update=server),
        }
    )
    return run.model_copy(update={"model": model})
