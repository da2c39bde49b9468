"""A `rollout_func` for TRL's GRPO trainer: rollouts on a running vLLM with the weights in training."""

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import anyio

from hermes_lab.config.schema import RunConfig
from hermes_lab.envs.knowledge import TaskKnowledge, start_library
from hermes_lab.envs.rollouts import Rollouts, open_rollouts
from hermes_lab.envs.stepwise import LoopThread
from hermes_lab.envs.trl.columns import split
from hermes_lab.errors import ConfigError, HermesLabError
from hermes_lab.models.weights import Say, silent
from hermes_lab.returned import load_tasks
from hermes_lab.skills.library import Library
from hermes_lab.tasks import load_suite
from hermes_lab.tasks.registry import wrap_suite_errors
from hermes_lab.types import Episode, Task, TokenBranch

_FOLDER = "policy"
"""Adapters are served as `policy-<first 12 digits of the digest>`."""


def ignore(_: Episode) -> None:
    """Discards episodes."""


def make_rollout_func(
    config: RunConfig,
    adapters: Path,
    *,
    library: Library | None = None,
    seen: Callable[[Episode], None] = ignore,
    say: Say = silent,
) -> "RolloutFunc":
    """A `rollout_func` over the tasks of `config.suite`, on the vLLM at `config.model.base_url`.

    `adapters` is a folder with the same path on the server. `seen` is called for every episode. Raises `ConfigError`
    unless the configuration names a running server, and as `TaskKnowledge` for the `library`, by default that of
    `skills.library`.
    """
    TaskKnowledge(config, load_suite(config.suite, config.sandbox), library)
    check_server(config)
    return RolloutFunc(config, adapters, start_library(config, library), seen, say)


def check_server(config: RunConfig) -> None:
    """Raises `ConfigError` unless the configuration names a running server of the base model."""
    if config.model.provider != "openai":
        raise ConfigError(
            f"model.provider: {config.model.provider} does not persist between trainer steps; start a vLLM "
            "(hermes-lab serve) and give model.provider=openai and model.base_url"
        )
    if config.model.adapter:
        raise ConfigError("model.adapter: must be empty, since the trainer's weights are served")


def suite_tasks(config: RunConfig) -> dict[str, Task]:
    """The tasks of `config.suite` by id, the same for rows and rollouts."""
    suite = config.suite
    loaded = load_suite(suite, config.sandbox)
    with wrap_suite_errors(loaded):
        tasks = load_tasks(loaded, split=suite.split, count=suite.count, seed=suite.seed, world=suite.world)
    return {task.id: task for task in tasks}


def prompt_rows(config: RunConfig) -> list[dict[str, Any]]:
    """One row per task, for `datasets.Dataset.from_list`. A `rollout_func` only gets prompts, so the prompt's message
    has the task id."""
    return list(map(prompt_row, suite_tasks(config).values()))


def prompt_row(task: Task) -> dict[str, Any]:
    """The row of one task."""
    return {"prompt": [{"role": "user", "content": task.prompt, "task_id": task.id}]}


def episode_reward(reward: Sequence[float | None], **_: Any) -> list[float | None]:
    """For `reward_funcs`: the rewards of the rollouts. TRL excludes None from its group."""
    return list(reward)


class Sampled(NamedTuple):
    """One completion for TRL. `problem` says why its tokens are masked, or is ""."""

    branch: TokenBranch | None
    reward: float | None
    problem: str = ""


class RolloutFunc:
    """Maps the prompts of a step, repeated for each completion, to sampled tokens and rewards for TRL.

    Every call is on-policy: after each optimiser step the trainer's adapter is loaded under a new name, and the
    previous one is unloaded. Errored rollouts, and those with a rewritten prompt (several sequences), are fully masked;
    errored ones have no reward and are excluded from means.
    """

    def __init__(
        self, config: RunConfig, adapters: Path, library: Library | None, seen: Callable[[Episode], None], say: Say
    ) -> None:
        model = config.model.model_copy(update={"token_ids": True})
        self._config = config.model_copy(update={"model": model})
        self._tasks = self._draw(config)
        self._adapters = adapters
        self._library = library
        self._seen = seen
        self._say = say
        self._loop = LoopThread()
        self._step = -1
        self._served: Path | None = None

    def __call__(self, prompts: Sequence[Any], trainer: Any) -> dict[str, list[Any]]:
        """Called by TRL. Raises `ConfigError` if the trainer's sampling differs from the configuration, and
        `HermesLabError` if no rollout can be trained on."""
        _check_trainer(self._config, trainer)
        tasks = [self._task(prompt) for prompt in prompts]
        step = int(trainer.state.global_step)
        policy = self._served
        if policy is None or step != self._step:
            policy = _save(trainer.model, self._adapters)
        sampled = self._loop.call(self._collect(tasks, policy, step))
        return self._columns(sampled, trainer.processing_class.eos_token_id)

    def close(self) -> None:
        """Unloads the last adapter. The object cannot be used afterwards."""
        if self._served is not None:
            self._loop.call(self._retire(self._served))
            self._served = None
        self._loop.close()

    def _task(self, prompt: Any) -> Task:
        task_id = prompt[-1].get("task_id", "") if isinstance(prompt, list) else ""
        if task_id not in self._tasks:
            raise ConfigError(
                f"prompt: no task {task_id!r} in this configuration; make the rows with prompt_rows of the same one"
            )
        return self._tasks[task_id]

    def _draw(self, config: RunConfig) -> dict[str, Task]:
        return suite_tasks(config)

    async def _collect(self, tasks: Sequence[Task], policy: Path, step: int) -> list[Sampled]:
        """One completion per entry of `tasks`, in order; equal tasks form one group."""
        config = self._config
        config = config.model_copy(update={"model": config.model.model_copy(update={"adapter": str(policy)})})
        rolled: dict[str, Any] = {}
        async with open_rollouts(config, log=Path("unused"), say=self._say, library=self._library) as rollouts:
            before, self._served, self._step = self._served, policy, step
            if before is not None and before != policy:
                await self._retire(before)

            async def roll_out(task: Task, size: int) -> None:
                rolled[task.id] = await self._group(rollouts, task, size, step)

            sizes = Counter(task.id for task in tasks)
            async with anyio.create_task_group() as group:
                for task_id, size in sizes.items():
                    group.start_soon(roll_out, self._tasks[task_id], size)
        # After the group, which would wrap errors.
        groups = {task_id: self._completions(rolled[task_id], size) for task_id, size in sizes.items()}
        return [groups[task.id].pop(0) for task in tasks]

    async def _group(self, rollouts: Rollouts, task: Task, size: int, step: int) -> Any:
        """Makes the rollouts of one task, for `_completions`."""
        return await rollouts.group(task, size, round_=step)

    def _completions(self, rolled: Any, size: int) -> list[Sampled]:
        """The `size` completions of one task."""
        del size
        for episode in rolled:
            self._seen(episode)
        return list(map(_sampled, rolled))

    async def _retire(self, folder: Path) -> None:
        from hermes_lab.models.adapters import identify, unload_adapter
        from hermes_lab.models.client import open_endpoint, read_keys
        from hermes_lab.models.refusals import Refused

        model = self._config.model
        async with open_endpoint(model, model.base_url, connections=1, key=read_keys(model)[0]) as endpoint:
            with suppress(Refused):  # already unloaded
                await unload_adapter(endpoint, identify(folder)[1].name)
        shutil.rmtree(folder.parent)

    def _columns(self, sampled: Sequence[Sampled], filler: int) -> dict[str, list[Any]]:
        left_out = [each.problem for each in sampled]
        if all(left_out):
            raise HermesLabError(f"none of {len(sampled)} rollouts can be trained on; the first: {left_out[0]}")
        for reason, count in Counter(filter(None, left_out)).items():
            self._say(f"{count} of {len(sampled)} rollouts masked: {reason}")
        nothing = TokenBranch((filler, filler), (0, 1), (0.0, 0.0))
        branches = [each.branch or nothing for each in sampled]
        columns = split((branch.token_ids, branch.mask, branch.logprobs) for branch in branches)
        masks = [[0] if reason else mask for mask, reason in zip(columns.env_mask, left_out, strict=True)]
        return {**columns._replace(env_mask=masks)._asdict(), "reward": [each.reward for each in sampled]}


def _sampled(episode: Episode) -> Sampled:
    reward = episode.reward.value if episode.reward else None
    problem = _why_untrained(episode)
    branch = None if problem or not episode.trajectory else episode.trajectory.branches[0]
    return Sampled(branch, reward, problem)


def _why_untrained(episode: Episode) -> str:
    """Why an episode is fully masked, or ""."""
    if episode.trajectory is None:
        return f"{episode.error.kind}: {episode.error.message}" if episode.error else "it has no trajectory"
    if not episode.trajectory.branches:
        raise ConfigError(f"{episode.key}: has no token ids; model.base_url must be a vLLM")
    if episode.reward is None:
        return "the task has no verifier"
    if len(episode.trajectory.branches) > 1:
        return "its prompt was rewritten, so it has several sequences"
    return ""


def _check_trainer(config: RunConfig, trainer: Any) -> None:
    if not hasattr(trainer.model, "peft_config"):
        raise ConfigError("trainer: its model has no LoRA adapter, which is required to update vLLM; pass peft_config")
    if trainer.accelerator.num_processes > 1:
        raise ConfigError("trainer: several processes would each load their own adapter; use one process")
    for name in ("temperature", "top_p"):
        ours, theirs = getattr(config.model.sampling, name), getattr(trainer.args, name)
        if ours != theirs:
            raise ConfigError(
                f"model.sampling.{name}: is {ours:g}, and the trainer's {theirs:g}; give both the same, or the "
                "log-probabilities are of different distributions"
            )


def _save(model: Any, root: Path) -> Path:
    """Writes the adapter to a folder named by its digest, so that a loaded adapter never changes."""
    from hermes_lab.models.adapters import adapter_digest

    root.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=root, prefix=".making-"))
    try:
        model.save_pretrained(scratch / _FOLDER)
        folder = root.resolve() / adapter_digest(scratch / _FOLDER)[:12]
        if not folder.is_dir():
            scratch.rename(folder)
        return folder / _FOLDER
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
