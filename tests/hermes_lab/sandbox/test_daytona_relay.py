"""The relay between a terminal at Daytona and the lab's worker, over a pair of sockets."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from hermes_lab.sandbox import daytona_relay
from hermes_lab.sandbox.daytona_relay import HEAD, WINDOW, Relay


class Client:
    """The other end: `frames` reads until the exit status, and confirms what it reads."""

    def __init__(self, end: socket.socket) -> None:
        self.end = end
        self.buffer = b""

    def send(self, kind: bytes, data: bytes = b"") -> None:
        self.end.sendall(HEAD.pack(kind, len(data)) + data)

    def frames(self) -> list[tuple[bytes, bytes]]:
        found: list[tuple[bytes, bytes]] = []
        while not found or found[-1][0] != b"X":
            data = self.end.recv(1 << 16)
            assert data
            self.buffer += data
            while len(self.buffer) >= HEAD.size:
                kind, size = HEAD.unpack_from(self.buffer)
                if len(self.buffer) < HEAD.size + size:
                    break
                found.append((kind, self.buffer[HEAD.size : HEAD.size + size]))
                self.buffer = self.buffer[HEAD.size + size :]
            self.end.sendall(HEAD.pack(b"A", len(data)))
        return found


@contextmanager
def relayed(script: str) -> Iterator[tuple[Client, list[int]]]:
    near, far = socket.socketpair()
    status: list[int] = []
    relay = Relay(["/bin/sh", "-c", script], far.fileno(), far.fileno())
    thread = threading.Thread(target=lambda: status.append(relay.run()))
    thread.start()
    try:
        yield Client(near), status
    finally:
        near.close()
        thread.join(60)
        far.close()
        assert status


def test_the_three_streams_and_the_exit_status() -> None:
    with relayed("cat; echo wrong >&2; exit 7") as (client, status):
        client.send(b"K")
        client.send(b"D", b"a\0\xff")
        client.send(b"D", b"\r\n\x04")
        client.send(b"E")
        found = client.frames()
    assert b"".join(data for kind, data in found if kind == b"O") == b"a\0\xff\r\n\x04"
    assert [data for kind, data in found if kind == b"S"] == [b"wrong\n"]
    assert found[-1] == (b"X", b"7")
    assert status == [7]


def test_few_frames_are_on_the_way_until_they_are_confirmed() -> None:
    with relayed(f"head -c {1000 * daytona_relay.PIECE} /dev/zero") as (client, _):
        client.end.settimeout(60)
        first = len(client.end.recv(1 << 16))
        client.end.settimeout(0.5)
        with suppress(TimeoutError):
            while first <= WINDOW * daytona_relay.PIECE:
                first += len(client.end.recv(1 << 16))
        assert 0 < first <= WINDOW * daytona_relay.PIECE
        client.end.settimeout(60)
        client.end.sendall(HEAD.pack(b"A", first))
        # The frames are whole, so what follows begins with a head.
        rest = b"".join(data for kind, data in client.frames() if kind == b"O")
        assert len(rest) < 1000 * daytona_relay.PIECE


def test_a_client_that_is_gone_ends_the_program() -> None:
    with relayed("trap '' HUP; cat; exit 3") as (client, status):
        client.send(b"D", b"x")
        client.end.shutdown(socket.SHUT_RDWR)
    assert status == [3]


def test_a_client_that_falls_silent_ends_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daytona_relay, "SILENCE", 0.3)
    with relayed("cat; exit 4") as (client, status):
        client.send(b"K")
        for _ in range(1000):
            time.sleep(0.01)
            if status:
                break
        assert status == [4]
