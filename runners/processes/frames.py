"""What a driver and its worker process say to each other: frames with their length before them, over a socket."""

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
    """Begin a rollout: `Worker.run_episode`, with a number for the reply."""

    call: int
    context: int
    request: bytes


class Cancel(msgspec.Struct, tag=True):
    """End a rollout; nothing is answered."""

    call: int


class Close(msgspec.Struct, tag=True):
    """End all rollouts and then the process."""


class Ready(msgspec.Struct, tag=True):
    """The worker has opened what it needs, or says what is in the way."""

    failure: str


class Finished(msgspec.Struct, tag=True):
    """The record of a rollout, as JSON; or what went wrong in the worker itself."""

    call: int
    episode: bytes = b""
    failure: str = ""


class Logged(msgspec.Struct, tag=True):
    """A log record of the worker, and the key of the episode from which it is."""

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
"""What reading from a process raises that is gone."""


async def send(stream: anyio.abc.ByteSendStream, frame: bytes) -> None:
    """Sends one frame. Raises `anyio.BrokenResourceError` where the other process is gone."""
    await stream.send(_LENGTH.pack(len(frame)) + frame)


async def receive(stream: BufferedByteReceiveStream) -> bytes:
    """The next frame. Raises one of `GONE` where the other process is gone."""
    (length,) = _LENGTH.unpack(await stream.receive_exactly(_LENGTH.size))
    return await stream.receive_exactly(length) if length else b""


async def messages(stream: BufferedByteReceiveStream, decoder: msgspec.msgpack.Decoder[T]) -> AsyncIterator[T]:
    """Every message, until the other process is gone."""
    while True:
        try:
            frame = await receive(stream)
        except GONE:
            return
        yield decoder.decode(frame)
