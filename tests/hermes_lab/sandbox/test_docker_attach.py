"""The frames in which an engine sends what a container writes."""

import socket
import struct
from types import SimpleNamespace

import anyio
import anyio.lowlevel
from hypothesis import given
from hypothesis import strategies as st

from hermes_lab.sandbox.docker_attach import Attached

Frame = tuple[int, bytes]


@given(st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=20))), st.integers(1, 30))
def test_lines_survive_any_cut_of_the_stream(frames: list[Frame], piece: int) -> None:
    sent = b"".join(struct.pack(">BxxxL", stream, len(data)) + data for stream, data in frames)
    lines = b"".join(data for stream, data in frames if stream == 1).split(b"\n")[:-1]
    assert anyio.run(_lines, sent, piece, len(lines)) == [*lines, b""]


async def _lines(sent: bytes, piece: int, count: int) -> list[bytes]:
    """So many lines and the end."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        attached = Attached(SimpleNamespace(_sock=ours))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_send, theirs, sent, piece)
            return [await attached.line() for _ in range(count + 1)]


async def _send(to: socket.socket, sent: bytes, piece: int) -> None:
    for start in range(0, len(sent), piece):
        to.sendall(sent[start : start + piece])
        await anyio.lowlevel.checkpoint()
    to.close()
