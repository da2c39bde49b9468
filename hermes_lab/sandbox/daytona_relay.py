"""Runs in a sandbox at Daytona, between its terminal and the lab's worker; it is sent there as text.

A terminal of Daytona passes all bytes once it is in raw mode, but two things it lacks: the service drops a client for
which 256 messages wait, and it lets programs live on when the client is gone. So what the worker says goes out in
frames, of which few are on the way until the client confirms them, and the worker ends if the client falls silent.

Each frame is a letter, a length and bytes. To here: `D` is stdin, `E` its end, `A` confirms bytes, `K` is a sign of
life. From here: `O` is stdout, `S` is stderr, `X` is the exit status. Imports the standard library alone.
"""

from __future__ import annotations

import os
import select
import struct
import subprocess
import sys
import threading
import tty
from collections import deque
from collections.abc import Sequence
from contextlib import suppress

READY = b"\nhermes-lab relay\n"
HEAD = struct.Struct(">cI")
PIECE = 2048
"""Bytes in a frame from here. The kernel passes as much through a terminal at once, so it is one message or two."""
WINDOW = 64
"""Frames from here that the client has not confirmed yet."""
SILENCE = 90.0
"""Seconds without a word of the client after which the worker ends."""


class Relay:
    """A program behind frames over a terminal in raw mode, or over any other pair of descriptors."""

    def __init__(self, command: Sequence[str], source: int, sink: int) -> None:
        self._source, self._sink = source, sink
        self._gone = False
        self._sent: deque[int] = deque()
        self._changed = threading.Condition()
        self._program = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        assert self._program.stdin is not None
        self._stdin = self._program.stdin

    def run(self) -> int:
        """Serves until the program ends, and returns its exit status."""
        assert self._program.stdout is not None
        assert self._program.stderr is not None
        streams = ((b"O", self._program.stdout.fileno()), (b"S", self._program.stderr.fileno()))
        out = [threading.Thread(target=self._forward, args=each, daemon=True) for each in streams]
        for thread in out:
            thread.start()
        threading.Thread(target=self._serve, daemon=True).start()
        status = self._program.wait()
        for thread in out:
            thread.join(10)  # a child of the program may hold its pipes
        self._say(b"X", b"%d" % status)
        with self._changed:
            self._changed.wait_for(lambda: self._gone or not self._sent, 10)
        if not any(thread.is_alive() for thread in out):
            self._program.stdout.close()
            self._program.stderr.close()
        return status

    def _forward(self, kind: bytes, source: int) -> None:
        while data := os.read(source, PIECE - HEAD.size):
            self._say(kind, data)

    def _say(self, kind: bytes, data: bytes) -> None:
        frame = HEAD.pack(kind, len(data)) + data
        with self._changed:
            self._changed.wait_for(lambda: self._gone or len(self._sent) < WINDOW)
            if self._gone:
                return
            self._sent.append(len(frame))
            try:
                _write(self._sink, frame)
            except OSError:
                self._gone = True

    def _confirmed(self, count: int) -> None:
        with self._changed:
            while self._sent and count:
                taken = min(count, self._sent[0])
                count -= taken
                self._sent[0] -= taken
                if not self._sent[0]:
                    self._sent.popleft()
            self._changed.notify_all()

    def _serve(self) -> None:
        """Hears the client, until it is gone; then the program has no stdin any more."""
        buffer = bytearray()
        with suppress(OSError):
            while select.select([self._source], [], [], SILENCE)[0]:
                data = os.read(self._source, 1 << 16)
                if not data:
                    break
                buffer += data
                while len(buffer) >= HEAD.size:
                    kind, size = HEAD.unpack_from(buffer)
                    end = HEAD.size + (0 if kind == b"A" else size)
                    if len(buffer) < end:
                        break
                    self._heard(kind, size, bytes(buffer[HEAD.size : end]))
                    del buffer[:end]
        with self._changed:
            self._gone = True
            self._changed.notify_all()
        self._end_stdin()
        try:
            self._program.wait(20)
        except subprocess.TimeoutExpired:
            self._program.kill()

    def _heard(self, kind: bytes, size: int, data: bytes) -> None:
        if kind == b"D":
            with suppress(OSError, ValueError):  # it has ended, or has no stdin any more
                _write(self._stdin.fileno(), data)
        elif kind == b"E":
            self._end_stdin()
        elif kind == b"A":
            self._confirmed(size)

    def _end_stdin(self) -> None:
        with suppress(OSError):
            self._stdin.close()


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def make(folder: str) -> None:
    """Makes the workspace, with sudo where the image's user may not and has it."""
    with suppress(OSError):
        os.makedirs(folder, exist_ok=True)  # noqa: PTH103
    if not os.access(folder, os.W_OK):
        owner = ["-o", str(os.getuid()), "-g", str(os.getgid())]
        with suppress(OSError):  # the worker says that it cannot write there
            subprocess.run(["sudo", "-n", "install", "-d", *owner, folder], capture_output=True, check=False)


def main(command: str, folder: str) -> None:
    """Runs a shell command behind the terminal that is stdin and stdout."""
    tty.setraw(0)
    make(folder)
    os.environ.pop("HERMES_LAB_RELAY", None)
    os.environ.update({"XDG_CACHE_HOME": "/tmp/.cache", "LANG": "C.UTF-8"})
    _write(1, READY)
    sys.exit(1 if Relay(["/bin/sh", "-c", command], 0, 1).run() else 0)
