"""Rollouts on a Ray cluster. The driver plans, logs and learns as in a local run; only the rollouts are elsewhere."""

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.abc
import msgspec
import ray
from ray import cloudpickle
from ray.exceptions import ObjectLostError, RayActorError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from hermes_lab.config.schema import RunConfig
from hermes_lab.errors import ConfigError, WorkerError
from hermes_lab.knowledge import Knowledge
from hermes_lab.models.adapters import PACKAGED, adapter_folder
from hermes_lab.models.weights import Say
from hermes_lab.rollout import RolloutContext, RolloutSpec, errored_episode, now
from hermes_lab.runners.ray.cluster import one_line, ray_cluster, room_for, what_it_has
from hermes_lab.runners.ray.worker import Setup, Worker
from hermes_lab.types import Episode

_TRIES = 3
"""Of a rollout whose worker died; then it is errored, and owed to a resume: it may be what kills them. And of the start
of a worker."""
_START_SECONDS = 120.0
"""Within which some worker has to be there."""
_CLOSE_SECONDS = 15.0
"""For workers to end their sandboxes; then they are killed."""


@dataclass(eq=False)
class _Member:
    """A worker, the id of its node, and how many rollouts it has now."""

    actor: Any
    where: str
    node: str
    busy: int = 0


@asynccontextmanager
async def open_pool(
    config: RunConfig, contexts: Sequence[RolloutContext], adapters: Sequence[str], say: Say
) -> AsyncIterator["Pool"]:
    """Workers on the cluster that `config` names, for the time of the block. `adapters` are what the models of
    `contexts` were opened under.

    Raises `ConfigError` where there is no such cluster or no room in it, `WorkerError` where no worker comes up.
    """
    with ray_cluster(config.run.ray.address):
        async with anyio.create_task_group() as tasks:
            pool = Pool(config, contexts, adapters, tasks, say)
            try:
                await pool.start()
                yield pool
            finally:
                with anyio.CancelScope(shield=True):
                    await pool.close()
                tasks.cancel_scope.cancel()


class Pool:
    """The workers. A rollout goes to the one that has the fewest; where one dies, its rollouts begin again elsewhere,
    and another takes its place."""

    def __init__(
        self,
        config: RunConfig,
        contexts: Sequence[RolloutContext],
        adapters: Sequence[str],
        tasks: anyio.abc.TaskGroup,
        say: Say,
    ) -> None:
        self._config = config.run
        self._numbers = {id(context): number for number, context in enumerate(contexts)}
        self._tasks = tasks
        self._say = say
        self._members: list[_Member] = []
        self._starting: set[Any] = set()
        self._coming = 0
        self._failure = ""
        self._changed = anyio.Event()
        names = (config.model.api_key_env, config.web.api_key_env)
        environment = {name: value for name in names if name and (value := os.environ.get(name))}
        models = tuple(
            (_anywhere(name), context.model.identity) for name, context in zip(adapters, contexts, strict=True)
        )
        self._setup = ray.put(Setup(config, contexts[0].config_digest, contexts[0].suite, models, environment))
        # A vLLM of our own serves this machine alone.
        self._here = ray.get_runtime_context().get_node_id() if config.model.provider == "vllm" else ""

    async def start(self) -> None:
        """Starts the workers, and waits for the first one."""
        room = room_for(self._config.ray.cpus, self._config.ray.resources, self._here)
        wanted = self._config.ray.workers or min(room, self._config.concurrency)
        if not room:
            needs = {"CPU": self._config.ray.cpus, **self._config.ray.resources}
            raise ConfigError(f"run.ray: no node of the cluster has {needs}; it has {what_it_has()}")
        if wanted > room:
            raise ConfigError(f"run.ray.workers: the cluster has room for {room} of them, not {wanted}")
        for _ in range(wanted):
            self._tasks.start_soon(self._add)
        await self._any()

    async def run_episode(self, context: RolloutContext, spec: RolloutSpec, knowledge: Knowledge) -> Episode:
        """`hermes_lab.rollout.run_episode`, on a worker. Raises `WorkerError` where there is none any more."""
        started_at = now()
        lost = ""
        for _ in range(_TRIES):
            member = await self._any()
            member.busy += 1
            try:
                line = await self._ask(member, self._numbers[id(context)], spec, knowledge)
                return msgspec.json.decode(line, type=Episode)
            except (RayActorError, ObjectLostError):  # a large reply lay on the node that is gone
                lost = member.where
                self._lose(member)
            except RayError as error:
                failure = WorkerError(f"{member.where}: {one_line(error)}")
                return errored_episode(context, spec, knowledge, failure, started_at)
            finally:
                member.busy -= 1
        failure = WorkerError(f"{_TRIES} workers died while they ran it, the last one on {lost}")
        return errored_episode(context, spec, knowledge, failure, started_at)

    async def close(self) -> None:
        """Ends every rollout and every worker."""
        with anyio.move_on_after(_CLOSE_SECONDS):
            async with anyio.create_task_group() as closing:
                for member in self._members:
                    closing.start_soon(_wait, member.actor.close.remote())
        for actor in (*self._starting, *(member.actor for member in self._members)):
            ray.kill(actor)

    async def _ask(self, member: _Member, number: int, spec: RolloutSpec, knowledge: Knowledge) -> bytes:
        # As one object of bytes: Ray takes much longer over several of other types.
        request: bytes = cloudpickle.dumps((spec, knowledge))  # type: ignore[no-untyped-call]
        reply = member.actor.run_episode.remote(number, request)
        try:
            line: bytes = await reply
        except anyio.get_cancelled_exc_class():
            ray.cancel(reply)
            raise
        return line

    async def _any(self) -> _Member:
        """The least busy worker; waits where there is none yet."""
        with anyio.move_on_after(_START_SECONDS):
            while not self._members:
                if not self._coming and self._failure:
                    raise WorkerError(self._failure)
                await self._changed.wait()
        if not self._members:
            raise WorkerError(f"no worker came up within {_START_SECONDS:g} s; the cluster has {what_it_has()}")
        return min(self._members, key=lambda member: member.busy)

    async def _add(self, near: str = "") -> None:
        """A worker more; on the node `near` if there is room, which sweeps what a dead one left on its disk. One that
        dies before it can begin is started again."""
        self._coming += 1
        try:
            for _ in range(_TRIES):
                if await self._begin(near):
                    break
        finally:
            self._coming -= 1
            self._tell()
        if self._failure and self._members:
            self._say(f"one worker less: {self._failure}")

    async def _begin(self, near: str) -> bool:
        """Starts a worker; False where it died."""
        node, soft = self._here or near, not self._here
        named = dict(self._config.ray.resources)
        actor: Any = (
            ray.remote(Worker)
            .options(
                num_cpus=self._config.ray.cpus,
                num_gpus=named.pop("GPU", 0.0),
                memory=named.pop("memory", None),
                resources=named,
                max_concurrency=self._config.concurrency + 8,  # the calls that close it must come through
                scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=soft) if node else "SPREAD",
            )
            .remote(self._setup)
        )
        self._starting.add(actor)
        try:
            actor.serve.remote()
            self._failure = await actor.ready.remote()
            if not self._failure:
                self._members.append(_Member(actor, *await actor.where.remote()))
        except RayError as error:
            self._failure = f"a worker did not start: {one_line(error)}"
            return False
        finally:
            self._starting.discard(actor)
        return True

    def _lose(self, member: _Member) -> None:
        if member not in self._members:
            return
        self._members.remove(member)
        self._failure = ""  # of a worker before it
        self._say(f"the worker on {member.where} is gone; what it ran begins again on another")
        ray.kill(member.actor)  # it may be out of reach alone
        self._tasks.start_soon(self._add, member.node)

    def _tell(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


async def _wait(reply: Any) -> None:
    """Waits for it, or until its worker turns out to be dead: the others are still to be closed."""
    with suppress(RayError):
        await reply


def _anywhere(adapter: str) -> str:
    """What names the adapter in every working directory: an absolute path where it is a folder here."""
    folder = None if adapter in ("", PACKAGED) else adapter_folder(adapter)
    return str(folder.resolve()) if folder else adapter
