"""The main program of a worker process: a `Worker` that the driver controls over a socket."""

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
    """Serves the driver on the socket whose descriptor is the first argument. The first frame is a pickled `Setup`.

    When the driver closes the socket or dies, the process closes the rollouts and their sandboxes, then exits.
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
    server = _Server(Worker(setup), outbox)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_send_all, stream, queued)
        await server.until_closed(received)
        tasks.cancel_scope.cancel()


async def _send_all(stream: anyio.abc.ByteSendStream, queued: anyio.abc.ObjectReceiveStream[frames.ToDriver]) -> None:
    encoder = msgspec.msgpack.Encoder()
    async for message in queued:
        try:
            await frames.send(stream, encoder.encode(message))
        except anyio.BrokenResourceError:  # the driver died, which also ends the reading task
            return


class _Server:
    """Handles the driver's messages. `_calls` maps the call numbers of rollouts to their cancel scopes."""

    def __init__(self, worker: Worker, outbox: MemoryObjectSendStream[frames.ToDriver]) -> None:
        self._worker = worker
        self._outbox = outbox
        self._calls: dict[int, anyio.CancelScope] = {}

    async def until_closed(self, received: BufferedByteReceiveStream) -> None:
        """Handles messages until the driver sends `Close` or dies."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._worker.serve)
            tasks.start_soon(self._report_ready)
            tasks.start_soon(self._report_running)
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

    async def _report_ready(self) -> None:
        self._outbox.send_nowait(frames.Ready(await self._worker.ready()))

    async def _report_running(self) -> None:
        before = b""
        while True:
            now = await self._worker.running()
            if now != before:
                self._outbox.send_nowait(frames.Working(now))
            before = now
            await anyio.sleep(PERIOD)

    async def _run(self, request: frames.Run, scope: anyio.CancelScope) -> None:
        reply = frames.Finished(request.call)
        with scope:
            try:
                reply.episode = await self._worker.run_episode(request.context, request.request) or b""
            except Exception as error:  # for example a task that this process cannot unpickle
                reply.failure = f"{type(error).__name__}: {error}"
        del self._calls[request.call]
        if reply.episode or reply.failure:
            self._outbox.send_nowait(reply)


def _relay_logs(outbox: MemoryObjectSendStream[frames.ToDriver]) -> None:
    """Sends warnings, and all log messages of the skill compiler, to the driver."""
    logging.getLogger().addHandler(_Relay(outbox))
    logging.getLogger(COMPILER).setLevel(logging.INFO)


class _Relay(logging.Handler):
    def __init__(self, outbox: MemoryObjectSendStream[frames.ToDriver]) -> None:
        super().__init__()
        self._outbox = outbox
        self._loop = asyncio.get_running_loop()

    def emit(self, record: logging.LogRecord) -> None:
        message = frames.Logged(record.name, record.levelno, self.format(record), current_episode())
        self._loop.call_soon_threadsafe(self._outbox.send_nowait, message)  # blocking tools log from other threads
