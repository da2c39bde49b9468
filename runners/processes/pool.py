"""Rollouts in several processes on this machine. The driver plans, logs and learns as in a local run."""

import itertools
import logging
import math
import os
import pickle
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import anyio.abc
import msgspec
from anyio.streams.buffered import BufferedByteReceiveStream

from hermes_lab.config.schema import RunConfig
from hermes_lab.errors import ConfigError, WorkerError
from hermes_lab.models.weights import Say
from hermes_lab.rollout import RolloutContext, RunEpisode
from hermes_lab.runners.engine.log_relay import episode_context
from hermes_lab.runners.engine.pool import Connection, Pool, WorkerGone
from hermes_lab.runners.engine.worker import setup_of
from hermes_lab.runners.processes import frames

_EXIT_SECONDS = 60.0
"""How long a worker that closed its socket may take to remove its scratch folder and exit, even on a loaded machine."""
_PROGRAM = "from hermes_lab.runners.processes.worker import main; main()"


@asynccontextmanager
async def open_pool(
    config: RunConfig, contexts: Sequence[RolloutContext], adapters: Sequence[str], say: Say
) -> AsyncIterator[RunEpisode]:
    """Runs `run.processes` worker processes within the block, and yields the function that runs rollouts on them.
    `adapters` are the names that the models of `contexts` were opened with.

    Raises `ConfigError` if the suite cannot be pickled, and `WorkerError` if no worker starts.
    """
    setup = setup_of(config, contexts, adapters)
    try:
        pickled = pickle.dumps(setup, pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # pickling a suite may raise anything
        raise ConfigError(
            f"run.executor: the suite {setup.suite.name} cannot be sent to another process ({error}); use local"
        ) from None
    async with anyio.create_task_group() as tasks:
        pool = Pool(contexts, tasks, _Starter(pickled, tasks).start, say)
        try:
            await pool.open(process_count(config))
            yield pool.run_episode
        finally:
            with anyio.CancelScope(shield=True):
                await pool.close()
            tasks.cancel_scope.cancel()


def process_count(config: RunConfig) -> int:
    """How many workers to start: never more than there are rollouts at once, and by default one for each CPU that this
    process may use, which in a job of a cluster or a container are fewer than the machine has."""
    return min(config.run.processes or len(os.sched_getaffinity(0)), config.run.concurrency)


class _Starter:
    def __init__(self, setup: bytes, tasks: anyio.abc.TaskGroup) -> None:
        self._setup = setup
        self._tasks = tasks

    async def start(self, place: str) -> Connection:
        """See `Start`. There is only one node, so `place` is ignored."""
        del place
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                process = await anyio.open_process(
                    [sys.executable, "-P", "-c", _PROGRAM, str(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    stdout=2,  # the driver's stdout is reserved for its results
                    stderr=None,
                    env=os.environ | {"PYTHONPATH": os.pathsep.join(path or str(Path.cwd()) for path in sys.path)},
                    start_new_session=True,  # only the driver gets Ctrl-C; it shuts the workers down in order
                    pass_fds=[theirs.fileno()],
                )
            except OSError as error:
                ours.close()
                raise WorkerError(f"a worker process cannot be started: {error.strerror}") from None
        connection = _ProcessConnection(process, await anyio.abc.SocketStream.from_socket(ours))
        self._tasks.start_soon(connection.send_all, self._setup)
        self._tasks.start_soon(connection.receive_all)
        try:
            if failure := await connection.ready():
                raise WorkerError(failure)
        except BaseException:
            with anyio.move_on_after(_EXIT_SECONDS, shield=True):  # time to remove its scratch folder
                await connection.close()
            connection.kill()
            raise
        return connection


class _ProcessConnection(Connection):
    """A worker process. One task writes to it and one reads from it; both are shielded from cancellation and end with
    the process."""

    def __init__(self, process: anyio.abc.Process, stream: anyio.abc.SocketStream) -> None:
        self.where = f"process {process.pid}"
        self._process = process
        self._stream = stream
        self._outbox, self._queued = anyio.create_memory_object_stream[frames.ToWorker](math.inf)
        self._calls: dict[int, _Call] = {}
        self._numbers = itertools.count()
        self._ready, self._gone = anyio.Event(), anyio.Event()
        self._sending = anyio.CancelScope(shield=True)
        self._failure = ""
        self._running = b"[]"

    async def ready(self) -> str:
        """Waits until rollouts can start. Returns "", or the reason why they cannot. Raises `WorkerGone` if the process
        ended first."""
        await self._ready.wait()
        if self._gone.is_set():
            raise WorkerGone(self._exit_message())
        return self._failure

    async def ask(self, number: int, request: bytes) -> bytes:
        if self._gone.is_set():
            raise WorkerGone(self._exit_message())
        key, call = next(self._numbers), _Call()
        self._calls[key] = call
        self._send(frames.Run(key, number, request))
        try:
            await call.answered.wait()
        except anyio.get_cancelled_exc_class():
            self._send(frames.Cancel(key))
            raise
        finally:
            del self._calls[key]
        if call.reply is None:
            raise WorkerGone(self._exit_message())
        if call.reply.failure:
            raise WorkerError(call.reply.failure)
        return call.reply.episode

    async def running(self) -> bytes:
        return self._running

    async def close(self) -> None:
        self._send(frames.Close())
        await self._gone.wait()

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()

    async def send_all(self, setup: bytes) -> None:
        """Sends the setup, then queued messages."""
        encoder = msgspec.msgpack.Encoder()
        with self._sending, suppress(anyio.BrokenResourceError):
            await frames.send(self._stream, setup)
            async for message in self._queued:
                await frames.send(self._stream, encoder.encode(message))

    async def receive_all(self) -> None:
        """Handles the worker's messages until it ends."""
        decoder = msgspec.msgpack.Decoder(frames.ToDriver)
        with anyio.CancelScope(shield=True):
            async for message in frames.messages(BufferedByteReceiveStream(self._stream), decoder):
                self._handle(message)
            with anyio.move_on_after(_EXIT_SECONDS):
                await self._process.wait()
            self.kill()
            await self._process.wait()
            self._gone.set()
            self._ready.set()
            for call in self._calls.values():
                call.answered.set()
            self._sending.cancel()
            self._outbox.close()
            self._queued.close()
            await self._stream.aclose()

    def _send(self, message: frames.ToWorker) -> None:
        if not self._gone.is_set():
            self._outbox.send_nowait(message)

    def _handle(self, message: frames.ToDriver) -> None:
        match message:
            case frames.Ready(failure):
                self._failure = failure
                self._ready.set()
            case frames.Finished(call):
                if waiting := self._calls.get(call):  # otherwise the call was cancelled meanwhile
                    waiting.reply = message
                    waiting.answered.set()
            case frames.Working(episodes):
                self._running = episodes
            case frames.Logged(name, level, text, episode):
                with episode_context(episode):
                    logging.getLogger(name).log(level, "%s", text)

    def _exit_message(self) -> str:
        code = self._process.returncode or 0
        return f"{self.where} was killed by signal {-code}" if code < 0 else f"{self.where} ended with exit code {code}"


class _Call:
    """A rollout in flight. `reply` stays None if the worker ends first."""

    def __init__(self) -> None:
        self.answered = anyio.Event()
        self.reply: frames.Finished | None = None
