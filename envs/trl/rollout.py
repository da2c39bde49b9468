"""A `rollout_func` for TRL's GRPO trainer: rollouts on a running vLLM with the weights in training."""

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio

from hermes_lab.config.schema import RunConfig
from hermes_lab.envs.knowledge import TaskKnowledge
from hermes_lab.envs.rollouts import open_rollouts
from hermes_lab.envs.stepwise import LoopThread
from hermes_lab.envs.trl.columns import split
from hermes_lab.errors import ConfigError, HermesLabError
from hermes_lab.models.weights import Say, silent
from hermes_lab.skills.library import Library
from hermes_lab.tasks import load_suite
from hermes_lab.types import Episode, Task

_FOLDER = "policy"
"""Adapters are served as `policy-<first 12 digits of the digest>`."""


def _ignore(_: Episode) -> None:
    """Discards episodes."""


def make_rollout_func(
    config: RunConfig,
    adapters: Path,
    *,
    library: Library | None = None,
    seen: Callable[[Episode], None] = _ignore,
    say: Say = silent,
) -> "RolloutFunc":
    """A `rollout_func` over the tasks of `config.suite`, on the vLLM at `config.model.base_url`.

    `adapters` is a folder with the same path on the server. `seen` is called for every episode. Raises `ConfigError`
    unless the configuration names a running server, and for a `library` besides `env.knowledge`.
    """
    TaskKnowledge(config, load_suite(config.suite, config.sandbox), library)
    if config.model.provider != "openai":
        raise ConfigError(
            f"model.provider: {config.model.provider} does not persist between trainer steps; start a vLLM "
            "(hermes-lab serve) and give model.provider=openai and model.base_url"
        )
    if config.model.adapter:
        raise ConfigError("model.adapter: must be empty, since the trainer's weights are served")
    return RolloutFunc(config, adapters, library, seen, say)


def suite_tasks(config: RunConfig) -> dict[str, Task]:
    """The tasks of `config.suite` by id, the same for rows and rollouts."""
    suite = config.suite
    tasks = load_suite(suite).load(split=suite.split, count=suite.count, seed=suite.seed, world=suite.world)
    return {task.id: task for task in tasks}


def prompt_rows(config: RunConfig) -> list[dict[str, Any]]:
    """One row per task, for `datasets.Dataset.from_list`. A `rollout_func` only gets prompts, so the prompt's message
    has the task id."""
    tasks = suite_tasks(config).values()
    return [{"prompt": [{"role": "user", "content": task.prompt, "task_id": task.id}]} for task in tasks]


def episode_reward(reward: Sequence[float | None], **_: Any) -> list[float | None]:
    """For `reward_funcs`: the rewards of the rollouts. TRL excludes None from its group."""
    return list(reward)


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
        self._tasks = suite_tasks(config)
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
        episodes = self._loop.call(self._collect(tasks, policy, step))
        for episode in episodes:
            self._seen(episode)
        return self._columns(episodes, trainer.processing_class.eos_token_id)

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

    async def _collect(self, tasks: Sequence[Task], policy: Path, step: int) -> list[Episode]:
        """One episode per entry of `tasks`, in order; equal tasks form one group."""
        config = self._config
        config = config.model_copy(update={"model": config.model.model_copy(update={"adapter": str(policy)})})
        groups: dict[str, list[Episode]] = {}
        async with open_rollouts(config, log=Path("unused"), say=self._say, library=self._library) as rollouts:
            before, self._served, self._step = self._served, policy, step
            if before is not None and before != policy:
                await self._retire(before)

            async def roll_out(task: Task, size: int) -> None:
                groups[task.id] = list(await rollouts.group(task, size, round_=step))

            async with anyio.create_task_group() as group:
                for task_id, size in Counter(task.id for task in tasks).items():
                    group.start_soon(roll_out, self._tasks[task_id], size)
        return [groups[task.id].pop(0) for task in tasks]

    async def _retire(self, folder: Path) -> None:
        from hermes_lab.models.adapters import identify, unload_adapter
        from hermes_lab.models.client import open_endpoint, read_keys
        from hermes_lab.models.refusals import Refused

        model = self._config.model
        async with open_endpoint(model, model.base_url, connections=1, key=read_keys(model)[0]) as endpoint:
            with suppress(Refused):  # already unloaded
                await unload_adapter(endpoint, identify(folder)[1].name)
        shutil.rmtree(folder.parent)

    def _columns(self, episodes: Sequence[Episode], filler: int) -> dict[str, list[Any]]:
        left_out = [_why_untrained(episode) for episode in episodes]
        if all(left_out):
            raise HermesLabError(f"none of {len(episodes)} rollouts can be trained on; the first: {left_out[0]}")
        for reason, count in Counter(filter(None, left_out)).items():
            self._say(f"{count} of {len(episodes)} rollouts masked: {reason}")
        columns = split(
            ((filler, filler), (0, 1), (None, None)) if reason else _only_branch(episode)
            for episode, reason in zip(episodes, left_out, strict=True)
        )
        masks = [[0] if reason else mask for mask, reason in zip(columns.env_mask, left_out, strict=True)]
        rewards = [episode.reward.value if episode.reward else None for episode in episodes]
        return {**columns._replace(env_mask=masks)._asdict(), "reward": rewards}


def _only_branch(episode: Episode) -> tuple[Sequence[int], Sequence[int], Sequence[float]]:
    assert episode.trajectory is not None
    (branch,) = episode.trajectory.branches
    return branch.token_ids, branch.mask, branch.logprobs


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
