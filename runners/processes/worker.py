"""The main program of a worker process: `Worker`, at the end of a socket to the driver."""

import asyncio
import logging
import math
import pickle
import socket
import sys

import anyio
import anyio.abc
import msgspec
from anyio.streams.buffered import BufferedByteReceiveStream
from anyio.streams.memory import MemoryObjectSendStream

from hermes_lab.runners.engine.log_relay import COMPILER, current_episode
from hermes_lab.runners.engine.running import PERIOD
from hermes_lab.runners.engine.worker import Setup, Worker
from hermes_lab.runners.processes import frames


def main() -> None:
    """Serves the driver at the socket whose descriptor is the first argument. The first frame is a pickled `Setup`.

    When the driver closes the socket, or is gone, the rollouts end with their sandboxes, and then the process.
    """
    anyio.run(_serve, socket.socket(fileno=int(sys.argv[1])))


async def _serve(connection: socket.socket) -> None:
    stream = await anyio.abc.SocketStream.from_socket(connection)
    received = BufferedByteReceiveStream(stream)
    try:
        setup: Setup = pickle.loads(await frames.receive(received))
    except frames.GONE:
        return
    outbox, queued = anyio.create_memory_object_stream[frames.ToDriver](math.inf)
    _relay_logs(outbox)
    served = _Served(Worker(setup), outbox)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_send_all, stream, queued)
        await served.until_closed(received)
        tasks.cancel_scope.cancel()


async def _send_all(stream: anyio.abc.ByteSendStream, queued: anyio.abc.ObjectReceiveStream[frames.ToDriver]) -> None:
    encoder = msgspec.msgpack.Encoder()
    async for message in queued:
        try:
            await frames.send(stream, encoder.encode(message))
        except anyio.BrokenResourceError:  # the driver is gone, which ends the reader, too
            return


class _Served:
    """The worker, and the rollouts that the driver may cancel, by their numbers."""

    def __init__(self, worker: Worker, outbox: MemoryObjectSendStream[frames.ToDriver]) -> None:
        self._worker = worker
        self._outbox = outbox
        self._calls: dict[int, anyio.CancelScope] = {}

    async def until_closed(self, received: BufferedByteReceiveStream) -> None:
        """Does what the driver asks for, until it wants no more."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._worker.serve)
            tasks.start_soon(self._say_when_ready)
            tasks.start_soon(self._say_what_runs)
            async for message in frames.messages(received, msgspec.msgpack.Decoder(frames.ToWorker)):
                match message:
                    case frames.Run():
                        scope = self._calls[message.call] = anyio.CancelScope()
                        tasks.start_soon(self._run, message, scope)
                    case frames.Cancel(call):
                        if found := self._calls.get(call):
                            found.cancel()
                    case frames.Close():
                        break
            await self._worker.close()
            tasks.cancel_scope.cancel()

    async def _say_when_ready(self) -> None:
        self._outbox.send_nowait(frames.Ready(await self._worker.ready()))

    async def _say_what_runs(self) -> None:
        before = b""
        while True:
            now = await self._worker.running()
            if now != before:
                self._outbox.send_nowait(frames.Working(now))
            before = now
            await anyio.sleep(PERIOD)

    async def _run(self, asked: frames.Run, scope: anyio.CancelScope) -> None:
        reply = frames.Finished(asked.call)
        with scope:
            try:
                reply.episode = await self._worker.run_episode(asked.context, asked.request) or b""
            except Exception as error:  # such as a task that this process cannot unpickle
                reply.failure = f"{type(error).__name__}: {error}"
        del self._calls[asked.call]
        if reply.episode or reply.failure:
            self._outbox.send_nowait(reply)


def _relay_logs(outbox: MemoryObjectSendStream[frames.ToDriver]) -> None:
    """Sends warnings, and all that the compiler of skills says, to the driver."""
    logging.getLogger().addHandler(_Relay(outbox))
    logging.getLogger(COMPILER).setLevel(logging.INFO)


class _Relay(logging.Handler):
    def __init__(self, outbox: MemoryObjectSendStream[frames.ToDriver]) -> None:
        super().__init__()
        self._outbox = outbox
        self._loop = asyncio.get_running_loop()

    def emit(self, record: logging.LogRecord) -> None:
        message = frames.Logged(record.name, record.levelno, self.format(record), current_episode())
        self._loop.call_soon_threadsafe(self._outbox.send_nowait, message)  # tools that block log from threads
