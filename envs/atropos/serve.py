"""Feeds a trajectory server at its trainer's pace."""

from collections.abc import Iterator
from typing import Any

import anyio
from anyio.abc import TaskGroup

from hermes_lab.envs.atropos.client import AtroposClient, LostAnswer, NotSent, UnknownEnvironment
from hermes_lab.envs.atropos.config import EnvSection
from hermes_lab.envs.atropos.messages import Info, RegisterEnv, Status
from hermes_lab.envs.atropos.source import Made, Source
from hermes_lab.envs.atropos.tally import Tally
from hermes_lab.errors import ConfigError, HermesLabError
from hermes_lab.models.weights import Say

LOOK = 0.5
"""Seconds between polls of the server while no group finishes."""


class Feeder:
    """Keeps the queue of one environment full, up to `max_batches_offpolicy`."""

    def __init__(self, client: AtroposClient, source: Source, env: EnvSection, tally: Tally, say: Say) -> None:
        self._client = client
        self._source = source
        self._env = env
        self._tally = tally
        self._say = say
        self._items: Iterator[Any] = source.items()
        self._running = 0
        self._ready: list[Made] = []
        self._finished = anyio.Event()
        self._failure: HermesLabError | None = None
        self._said = ""

    async def run(self) -> None:
        """Runs until the trainer has reached its step count. Registers again with a restarted server and drops the
        groups sampled before. Always disconnects at the end."""
        while True:
            try:
                return await self._serve_once()
            except UnknownEnvironment as error:
                self._tally.refused["the server was restarted"] += len(self._ready) + self._running
                self._ready, self._running = [], 0
                self._client.forget()
                self._say(f"{error}: registering again")
            finally:
                self._leave_ready()
                with anyio.CancelScope(shield=True):
                    if not await self._client.disconnect():
                        self._say(f"{self._client.url}: could not disconnect this environment")

    async def _serve_once(self) -> None:
        env = self._env
        wanted = RegisterEnv(
            env.max_token_length, env.name, env.weight, env.group_size, min_batch_allocation=env.min_batch_allocation
        )
        registered = await self._client.register(wanted, patience=env.trainer_seconds)
        info = await self._client.info()
        check_batch(info, env.group_size)
        self._source.longest = longest(info, env)
        steps = env.steps or max(registered.num_steps, 0)
        logs = await self._client.wandb_info()
        self._say(
            f"{self._client.url}: registered as {registered.wandb_name}, batches of {info.batch_size}, "
            f"step {registered.starting_step} of {steps or 'any number'}, wandb project {logs.project or 'none'}"
        )
        async with anyio.create_task_group() as work:
            try:
                await self._feed(work, info, steps, registered.starting_step)
            except HermesLabError as error:  # kept out of an ExceptionGroup
                self._failure = error
            work.cancel_scope.cancel()
        if self._failure:
            failure, self._failure = self._failure, None
            raise failure

    async def _feed(self, work: TaskGroup, info: Info, steps: int, step: int) -> None:
        while True:
            if self._failure:
                raise self._failure
            status = await self._client.status()
            if status.current_step < step:  # a restarted server, on which this id is another environment's
                raise UnknownEnvironment(f"{self._client.url}: the trainer's step went back to {status.current_step}")
            step = status.current_step
            if steps and step + status.queue_size * self._env.group_size // info.batch_size >= steps:
                self._leave_ready()
                self._say(f"the trainer has reached its {steps} steps: {self._tally}")
                return
            if self._ready:
                await self._post(status)
                continue
            room = capacity(status, info, self._env) - status.queue_size - self._running
            for _ in range(min(room, self._source.at_once - self._running)):
                self._running += 1
                work.start_soon(self._make, next(self._items))
            self._tell(status, waiting=room <= 0 and not self._running)
            with anyio.move_on_after(LOOK):
                await self._finished.wait()
            self._finished = anyio.Event()

    async def _make(self, item: Any) -> None:
        try:
            self._ready += await self._source.make_all(item)
        except HermesLabError as error:
            self._failure = error
        self._running -= 1
        self._finished.set()

    async def _post(self, status: Status) -> None:
        ready, self._ready = self._ready, []
        try:
            await self._client.post([made.data for made in ready])
        except NotSent:
            self._ready = ready + self._ready  # the next poll reports the failure
            return
        except LostAnswer as error:
            self._tally.refused["the response was lost"] += len(ready)
            self._say(str(error))
            return
        self._tally.sent([made.group for made in ready])
        self._tell(status, waiting=False)

    def _leave_ready(self) -> None:
        """Counts the groups that are ready when there is nobody to post them to any more."""
        if self._ready:
            self._tally.refused["not posted before the end"] += len(self._ready)
            self._ready = []

    def _tell(self, status: Status, *, waiting: bool) -> None:
        line = f"step {status.current_step}, {self._tally}" + (", waiting for the trainer" if waiting else "")
        if line != self._said:
            self._say(line)
        self._said = line


def check_batch(info: Info, group_size: int) -> None:
    """Raises `ConfigError` if groups of this size cannot fill a batch."""
    if info.batch_size % group_size:
        raise ConfigError(
            f"env.group_size: the trainer's batch of {info.batch_size} sequences is not a multiple of {group_size}, "
            "so it could never be filled; change one of them"
        )


def longest(info: Info, env: EnvSection) -> int:
    """The longest sequence that both sides accept, in tokens; -1 from a trainer means no limit."""
    return min(env.max_token_length, info.max_token_len) if info.max_token_len > 0 else env.max_token_length


def capacity(status: Status, info: Info, env: EnvSection) -> int:
    """Groups that may be queued on the server: this environment's share of `max_batches_offpolicy` batches.

    As in atroposlib, environments with a `min_batch_allocation` get that plus a share of the unallocated rest.
    """
    share = min(1.0, status.unallocated_fraction + (env.min_batch_allocation or 0.0))
    sequences = max(1, env.max_batches_offpolicy) * info.batch_size * share
    return max(1, int(sequences) // env.group_size) if share > 0 else 0
