"""Workers of any kind: who gets which rollout, and what happens where one dies."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import anyio
import anyio.abc
import msgspec

from hermes_lab.activity import Running
from hermes_lab.errors import WorkerError
from hermes_lab.knowledge import Knowledge
from hermes_lab.models.weights import Say
from hermes_lab.rollout import RolloutContext, RolloutSpec, errored_episode, now
from hermes_lab.runners.engine.running import PERIOD
from hermes_lab.runners.engine.worker import encode_request
from hermes_lab.types import Episode

_TRIES = 3
"""Of a rollout whose worker died; then it is errored, and a resume runs it again: it may be what kills them. And of
the start of a worker."""
_START_SECONDS = 120.0
"""Within which some worker has to be there."""
_ANSWER_SECONDS = 5.0
"""For a worker to say what it does."""
_CLOSE_SECONDS = 15.0
"""For workers to end their sandboxes; then they are killed."""


class WorkerGone(Exception):
    """The worker is dead or out of reach. The message says why, where that is known."""


class Connection(ABC):
    """A running worker. `where` is for a person; `place` is where a worker that takes its place is to be started;
    `busy` counts its rollouts."""

    where: str
    place: str = ""
    busy: int = 0

    @abstractmethod
    async def ask(self, number: int, request: bytes) -> bytes:
        """`Worker.run_episode`; cancelling it cancels the rollout. Raises `WorkerGone` where the worker is gone, and
        `WorkerError` for any other failure."""

    @abstractmethod
    async def running(self) -> bytes:
        """`Worker.running`, perhaps of a moment ago. Raises `WorkerGone` where the worker is gone."""

    @abstractmethod
    async def close(self) -> None:
        """`Worker.close`; returns, too, where the worker is gone."""

    @abstractmethod
    def kill(self) -> None:
        """Ends it at once, if it is still there."""


Start = Callable[[str], Awaitable[Connection]]
"""Starts a worker, at a place if possible ("": anywhere), and waits until it is ready. Raises `WorkerGone` where it
died before that, and `WorkerError` where it says what is in the way. Cancelled, it leaves no worker."""


class Pool:
    """The workers. A rollout goes to the one that has the fewest; where one dies, its rollouts begin again elsewhere,
    and another takes its place. `room` says what there is for workers, where none comes up."""

    def __init__(
        self,
        contexts: Sequence[RolloutContext],
        tasks: anyio.abc.TaskGroup,
        start: Start,
        say: Say,
        room: Callable[[], str] = str,
    ) -> None:
        self._numbers = {id(context): number for number, context in enumerate(contexts)}
        self._activities = contexts[0].activities
        self._tasks = tasks
        self._start = start
        self._say = say
        self._room = room
        self._workers: list[Connection] = []
        self._coming = 0
        self._failure = ""
        self._changed = anyio.Event()

    async def open(self, count: int) -> None:
        """Starts so many workers, and waits for the first one. Raises `WorkerError` where none comes up."""
        for _ in range(count):
            self._tasks.start_soon(self._add)
        await self._any()
        self._tasks.start_soon(self._watch)

    async def run_episode(self, context: RolloutContext, spec: RolloutSpec, knowledge: Knowledge) -> Episode:
        """`hermes_lab.rollout.run_episode`, on a worker. Raises `WorkerError` where there is none any more."""
        started_at = now()
        lost = ""
        request = encode_request(spec, knowledge)
        for _ in range(_TRIES):
            worker = await self._any()
            worker.busy += 1
            try:
                line = await worker.ask(self._numbers[id(context)], request)
                return msgspec.json.decode(line, type=Episode)
            except WorkerGone:
                lost = worker.where
                self._lose(worker)
            except WorkerError as error:
                failure = WorkerError(f"{worker.where}: {error}")
                return errored_episode(context, spec, knowledge, failure, started_at)
            finally:
                worker.busy -= 1
        failure = WorkerError(f"{_TRIES} workers died while they ran it, the last one on {lost}")
        return errored_episode(context, spec, knowledge, failure, started_at)

    async def close(self) -> None:
        """Ends every rollout and every worker that has started."""
        with anyio.move_on_after(_CLOSE_SECONDS):
            async with anyio.create_task_group() as closing:
                for worker in self._workers:
                    closing.start_soon(worker.close)
        for worker in self._workers:
            worker.kill()

    async def _any(self) -> Connection:
        """The least busy worker; waits where there is none yet."""
        with anyio.move_on_after(_START_SECONDS):
            while not self._workers:
                if not self._coming and self._failure:
                    raise WorkerError(self._failure)
                await self._changed.wait()
        if not self._workers:
            room = f"; {said}" if (said := self._room()) else ""
            raise WorkerError(f"no worker came up within {_START_SECONDS:g} s{room}")
        return min(self._workers, key=lambda worker: worker.busy)

    async def _add(self, place: str = "") -> None:
        """A worker more; where one died, at its place, which sweeps what that left on the disk. One that dies before
        it can begin is started again."""
        self._coming += 1
        try:
            for _ in range(_TRIES):
                try:
                    self._workers.append(await self._start(place))
                    self._failure = ""
                    break
                except WorkerGone as error:
                    self._failure = f"a worker did not start: {error}"
                except WorkerError as error:
                    self._failure = str(error)
                    break
        finally:
            self._coming -= 1
            self._tell()
        if self._failure and self._workers:
            self._say(f"one worker less: {self._failure}")

    async def _watch(self) -> None:
        """Asks all workers now and then what their rollouts are doing."""
        while True:
            told: dict[Connection, list[Running]] = {}
            async with anyio.create_task_group() as asking:
                for worker in self._workers:
                    asking.start_soon(self._ask_running, worker, told)
            self._activities.elsewhere = [episode for worker in told for episode in told[worker]]
            await anyio.sleep(PERIOD)

    async def _ask_running(self, worker: Connection, told: dict[Connection, list[Running]]) -> None:
        with suppress(WorkerGone), anyio.move_on_after(_ANSWER_SECONDS):
            told[worker] = msgspec.json.decode(await worker.running(), type=list[Running])

    def _lose(self, worker: Connection) -> None:
        if worker not in self._workers:
            return
        self._workers.remove(worker)
        self._failure = ""  # of a worker before it
        self._say(f"the worker on {worker.where} is gone; what it ran begins again on another")
        worker.kill()  # it may be out of reach alone
        self._tasks.start_soon(self._add, worker.place)

    def _tell(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
