"""A pool of workers of any kind: assigns rollouts to workers, and replaces workers that die."""

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
"""Attempts to run a rollout whose workers die, and to start a worker. After that the rollout, which may be what kills
the workers, counts as errored; a resume runs it again."""
_START_SECONDS = 120.0
"""How long to wait for the first worker."""
_ANSWER_SECONDS = 5.0
"""How long a worker may take to say what it does."""
_CLOSE_SECONDS = 15.0
"""How long workers may take to close their sandboxes before they are killed."""


class WorkerGone(Exception):
    """The worker died or cannot be reached. The message gives the reason, if known."""


class Connection(ABC):
    """A running worker. `where` describes it in messages; `place` is the node on which to start its replacement; `busy`
    counts its rollouts."""

    where: str
    place: str = ""
    busy: int = 0

    @abstractmethod
    async def ask(self, number: int, request: bytes) -> bytes:
        """Calls `Worker.run_episode`; cancelling the call cancels the rollout. Raises `WorkerGone` if the worker is
        gone, and `WorkerError` for any other failure."""

    @abstractmethod
    async def running(self) -> bytes:
        """`Worker.running`, perhaps of a moment ago. Raises `WorkerGone` where the worker is gone."""

    @abstractmethod
    async def close(self) -> None:
        """Calls `Worker.close`. Does not raise if the worker is already gone."""

    @abstractmethod
    def kill(self) -> None:
        """Kills the worker, if it still runs."""


Start = Callable[[str], Awaitable[Connection]]
"""Starts a worker, on the given node if possible ("": any node), and waits until it is ready. Raises `WorkerGone` if it
dies before that, and `WorkerError` if it reports why it cannot run. If cancelled, it leaves no worker behind."""


class Pool:
    """A pool of workers. Each rollout goes to the least busy worker. When a worker dies, its rollouts restart on others
    and a replacement is started. `room` describes the available resources, for the error if no worker starts."""

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
        self._starting = 0
        self._failure = ""
        self._changed = anyio.Event()

    async def open(self, count: int) -> None:
        """Starts `count` workers and waits for the first one. Raises `WorkerError` if none starts."""
        for _ in range(count):
            self._tasks.start_soon(self._add_worker)
        await self._least_busy()
        self._tasks.start_soon(self._watch)

    async def run_episode(self, context: RolloutContext, spec: RolloutSpec, knowledge: Knowledge) -> Episode:
        """Runs `hermes_lab.rollout.run_episode` on a worker. Raises `WorkerError` if no worker is left."""
        started_at = now()
        lost = ""
        request = encode_request(spec, knowledge)
        for _ in range(_TRIES):
            worker = await self._least_busy()
            worker.busy += 1
            try:
                line = await worker.ask(self._numbers[id(context)], request)
                return msgspec.json.decode(line, type=Episode)
            except WorkerGone:
                lost = worker.where
                self._replace(worker)
            except WorkerError as error:
                failure = WorkerError(f"{worker.where}: {error}")
                return errored_episode(context, spec, knowledge, failure, started_at)
            finally:
                worker.busy -= 1
        failure = WorkerError(f"{_TRIES} workers died while running it, the last one on {lost}")
        return errored_episode(context, spec, knowledge, failure, started_at)

    async def close(self) -> None:
        """Ends all rollouts and all workers."""
        with anyio.move_on_after(_CLOSE_SECONDS):
            async with anyio.create_task_group() as closing:
                for worker in self._workers:
                    closing.start_soon(worker.close)
        for worker in self._workers:
            worker.kill()

    async def _least_busy(self) -> Connection:
        """The least busy worker; waits for one if there is none."""
        with anyio.move_on_after(_START_SECONDS):
            while not self._workers:
                if not self._starting and self._failure:
                    raise WorkerError(self._failure)
                await self._changed.wait()
        if not self._workers:
            room = f"; {resources}" if (resources := self._room()) else ""
            raise WorkerError(f"no worker started within {_START_SECONDS:g} s{room}")
        return min(self._workers, key=lambda worker: worker.busy)

    async def _add_worker(self, place: str = "") -> None:
        """Starts one more worker, and retries if it dies before it is ready. A replacement starts on the node of the
        dead worker, so that it removes the files that worker left on the disk."""
        self._starting += 1
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
            self._starting -= 1
            self._notify()
        if self._failure and self._workers:
            self._say(f"running with fewer workers: {self._failure}")

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

    def _replace(self, worker: Connection) -> None:
        if worker not in self._workers:
            return
        self._workers.remove(worker)
        self._failure = ""  # may be set by an earlier worker
        self._say(f"lost the worker on {worker.where}; its rollouts restart on another worker")
        worker.kill()  # it may still run, and only be unreachable
        self._tasks.start_soon(self._add_worker, worker.place)

    def _notify(self) -> None:
        """Wakes the rollouts that wait for a worker."""
        self._changed.set()
        self._changed = anyio.Event()
