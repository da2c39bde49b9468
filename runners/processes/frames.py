"""Messages between a driver and its worker process: length-prefixed frames over a socket."""

import struct
from collections.abc import AsyncIterator
from typing import TypeVar

import anyio
import anyio.abc
import msgspec
from anyio.streams.buffered import BufferedByteReceiveStream

_LENGTH = struct.Struct("!Q")
T = TypeVar("T")


class Run(msgspec.Struct, tag=True):
    """Starts a rollout (`Worker.run_episode`). `call` identifies it in `Cancel` and `Finished`."""

    call: int
    context: int
    request: bytes


class Cancel(msgspec.Struct, tag=True):
    """Cancels a rollout. There is no reply."""

    call: int


class Close(msgspec.Struct, tag=True):
    """Cancels all rollouts and then ends the process."""


class Ready(msgspec.Struct, tag=True):
    """The worker is ready, or could not start because of `failure`."""

    failure: str


class Finished(msgspec.Struct, tag=True):
    """A rollout's record as JSON, or the `failure` of the worker itself."""

    call: int
    episode: bytes = b""
    failure: str = ""


class Logged(msgspec.Struct, tag=True):
    """A log record of the worker, with the key of the episode that it belongs to."""

    name: str
    level: int
    message: str
    episode: str


class Working(msgspec.Struct, tag=True):
    """What the worker's rollouts are doing: `Worker.running`."""

    episodes: bytes


ToWorker = Run | Cancel | Close
ToDriver = Ready | Finished | Logged | Working
GONE = (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError)
"""Errors raised by reading from a process that has ended."""


async def send(stream: anyio.abc.ByteSendStream, frame: bytes) -> None:
    """Sends one frame. Raises `anyio.BrokenResourceError` if the other process has ended."""
    await stream.send(_LENGTH.pack(len(frame)) + frame)


async def receive(stream: BufferedByteReceiveStream) -> bytes:
    """Receives one frame. Raises one of `GONE` if the other process has ended."""
    (length,) = _LENGTH.unpack(await stream.receive_exactly(_LENGTH.size))
    return await stream.receive_exactly(length) if length else b""


async def messages(stream: BufferedByteReceiveStream, decoder: msgspec.msgpack.Decoder[T]) -> AsyncIterator[T]:
    """Yields messages until the other process ends."""
    while True:
        try:
            frame = await receive(stream)
        except GONE:
            return
        yield decoder.decode(frame)
