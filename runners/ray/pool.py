"""Rollouts on a Ray cluster. The driver plans, logs and learns as in a local run; only the rollouts are remote."""

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import ray
from ray.exceptions import ObjectLostError, RayActorError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from hermes_lab.config.schema import RunConfig
from hermes_lab.errors import ConfigError, WorkerError
from hermes_lab.models.weights import Say
from hermes_lab.rollout import RolloutContext, RunEpisode
from hermes_lab.runners.engine.pool import Connection, Pool, WorkerGone
from hermes_lab.runners.engine.worker import Worker, setup_of
from hermes_lab.runners.ray.cluster import one_line, ray_cluster, room_for, what_it_has


@asynccontextmanager
async def open_pool(
    config: RunConfig, contexts: Sequence[RolloutContext], adapters: Sequence[str], say: Say
) -> AsyncIterator[RunEpisode]:
    """Runs workers on the cluster of `config` within the block, and yields the function that runs rollouts on them.
    `adapters` are the names that the models of `contexts` were opened with.

    Raises `ConfigError` if the cluster cannot be reached or is too small, and `WorkerError` if no worker starts.
    """
    with ray_cluster(config.run.ray.address):
        async with anyio.create_task_group() as tasks:
            starter = _Starter(config, ray.put(setup_of(config, contexts, adapters)))
            pool = Pool(contexts, tasks, starter.start, say, lambda: f"the cluster has {what_it_has()}")
            try:
                await pool.open(starter.wanted())
                yield pool.run_episode
            finally:
                with anyio.CancelScope(shield=True):
                    await pool.close()
                tasks.cancel_scope.cancel()


class RayWorker(Worker):
    """The Ray actor class."""

    async def where(self) -> tuple[str, str]:
        """Host and process, for messages, and the node id."""
        return f"{os.uname().nodename}, process {os.getpid()}", ray.get_runtime_context().get_node_id()


class _Starter:
    """Starts actors from a `Setup` in Ray's object store."""

    def __init__(self, config: RunConfig, setup: Any) -> None:
        self._config = config.run
        self._setup = setup
        # A vLLM server that we start only serves this machine.
        self._here = ray.get_runtime_context().get_node_id() if config.model.provider == "vllm" else ""

    def wanted(self) -> int:
        """The number of workers to start. Raises `ConfigError` if they do not fit on the cluster."""
        room = room_for(self._config.ray.cpus, self._config.ray.resources, self._here)
        wanted = self._config.ray.workers or min(room, self._config.concurrency)
        if not room:
            needs = {"CPU": self._config.ray.cpus, **self._config.ray.resources}
            raise ConfigError(f"run.ray: no node of the cluster has {needs}; it has {what_it_has()}")
        if wanted > room:
            raise ConfigError(f"run.ray.workers: the cluster has room for {room} of them, not {wanted}")
        return wanted

    async def start(self, place: str) -> Connection:
        """See `Start`; `place` is a node id."""
        node, soft = self._here or place, not self._here
        named = dict(self._config.ray.resources)
        actor: Any = (
            ray.remote(RayWorker)
            .options(
                num_cpus=self._config.ray.cpus,
                num_gpus=named.pop("GPU", 0.0),
                memory=named.pop("memory", None),
                resources=named,
                max_concurrency=self._config.concurrency + 8,  # leaves slots for the calls that close the worker
                scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=soft) if node else "SPREAD",
            )
            .remote(self._setup)
        )
        try:
            actor.serve.remote()
            if failure := await actor.ready.remote():
                raise WorkerError(failure)
            return _RayConnection(actor, *await actor.where.remote())
        except RayError as error:
            raise WorkerGone(one_line(error)) from None
        except BaseException:
            ray.kill(actor)
            raise


class _RayConnection(Connection):
    def __init__(self, actor: Any, where: str, place: str) -> None:
        self._actor = actor
        self.where, self.place = where, place

    async def ask(self, number: int, request: bytes) -> bytes:
        reply = self._actor.run_episode.remote(number, request)
        try:
            line: bytes = await reply
        except anyio.get_cancelled_exc_class():
            ray.cancel(reply)
            raise
        except (RayActorError, ObjectLostError) as error:  # a large reply is lost with the node that holds it
            raise WorkerGone(one_line(error)) from None
        except RayError as error:
            raise WorkerError(one_line(error)) from None
        return line

    async def running(self) -> bytes:
        try:
            episodes: bytes = await self._actor.running.remote()
        except RayError as error:
            raise WorkerGone(one_line(error)) from None
        return episodes

    async def close(self) -> None:
        with suppress(RayError):
            await self._actor.close.remote()

    def kill(self) -> None:
        ray.kill(self._actor)
