"""Groups of rollouts for other frameworks (Atropos, TRL), with the batch runner's rollouts."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import anyio

from hermes_lab.config.schema import RunConfig
from hermes_lab.contexts import open_contexts
from hermes_lab.envs.draws import check_env_judge
from hermes_lab.envs.knowledge import TaskKnowledge
from hermes_lab.harness.installed import find_installed
from hermes_lab.knowledge import Knowledge
from hermes_lab.models import open_model
from hermes_lab.models.weights import Say
from hermes_lab.returned import load_tasks
from hermes_lab.rewards import reward_warnings
from hermes_lab.rollout import RolloutContext, RolloutSpec, RunEpisode, run_episode
from hermes_lab.sandbox import probe
from hermes_lab.skills.library import Library
from hermes_lab.tasks import load_suite
from hermes_lab.types import Episode, Task

Executor = Callable[[RunConfig, Sequence[RolloutContext], Sequence[str], Say], AbstractAsyncContextManager[RunEpisode]]
"""Opens an executor of rollouts."""


class Rollouts:
    """Runs a suite's tasks with one model, with at most `run.concurrency` concurrent rollouts over all groups."""

    def __init__(
        self, context: RolloutContext, knowledge: TaskKnowledge, run_episode: RunEpisode = run_episode
    ) -> None:
        self.context = context
        self.knowledge = knowledge
        self._run_episode = run_episode
        self._limiter = anyio.CapacityLimiter(context.config.run.concurrency)

    def tasks(self, *, split: str, count: int, seed: int, world: int) -> list[Task]:
        """`count` tasks of a world's split, drawn by `seed`."""
        return load_tasks(self.context.suite, split=split, count=count, seed=seed, world=world)

    async def group(self, task: Task, size: int, *, round_: int = 0, first: int = 0) -> tuple[Episode, ...]:
        """`size` rollouts of one task with the same skills, in order, errored ones included (see `Episode.status`).

        `first` is the first sample number, so that replacements of errored rollouts get new numbers.
        """
        episodes: dict[int, Episode] = {}
        knowledge = self.knowledge.of(task)

        async def roll_out(sample: int) -> None:
            spec = RolloutSpec(task, lane="env", round=round_, sample=sample, experience=0, place=0, review="never")
            episodes[sample] = await self.run(spec, knowledge)

        async with anyio.create_task_group() as rollouts:
            for sample in range(first, first + size):
                rollouts.start_soon(roll_out, sample)
        return tuple(episodes[sample] for sample in sorted(episodes))

    async def run(self, spec: RolloutSpec, knowledge: Knowledge) -> Episode:
        """One rollout, once fewer than `run.concurrency` others run."""
        async with self._limiter:
            return await self._run_episode(self.context, spec, knowledge)


@asynccontextmanager
async def _here(
    config: RunConfig, contexts: Sequence[RolloutContext], adapters: Sequence[str], say: Say
) -> AsyncIterator[RunEpisode]:
    del config, contexts, adapters, say
    yield run_episode


@asynccontextmanager
async def open_rollouts(
    config: RunConfig, *, log: Path, say: Say, library: Library | None = None, executor: Executor = _here
) -> AsyncIterator[Rollouts]:
    """Opens the suite, sandbox and model of `config` on `executor`, for the duration of the context.

    `library` is what every task starts with, by default that of `skills.library`, unless `env.knowledge` chooses. A
    started vLLM logs to `log`. Raises `ConfigError` and `ModelError` as `open_model`.
    """
    suite = load_suite(config.suite, config.sandbox)
    knowledge = TaskKnowledge(config, suite, library)
    check_env_judge(config, suite)
    await probe(config.sandbox)
    if doubt := reward_warnings(config.reward):
        say(doubt)
    opened = open_model(
        config.model, tool_format=config.agent.tool_format, log=log, concurrency=config.run.concurrency, say=say
    )
    async with (
        opened as model,
        open_contexts(config, suite, [model], say=say, warn=say, program=find_installed(config.agent)) as (context,),
        executor(config, [context], [config.model.adapter], say) as run,
    ):
        yield Rollouts(context, knowledge, run)
