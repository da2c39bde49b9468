"""A listening socket inside a sandbox's network, served by the harness outside of it."""

import ctypes
import os
import socket
import subprocess
import sys
import threading

import anyio.to_thread

from hermes_lab.errors import SandboxError

_LOOPBACK = "127.0.0.1"
_BACKLOG = 64
_CLONE_NEWNET = 0x40000000
_HELPER = """\
import ctypes, fcntl, os, socket, sys
net, port, backlog = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
libc = ctypes.CDLL(None, use_errno=True)
user = fcntl.ioctl(net, 0xB701)  # NS_GET_USERNS: whose namespace it is
for fd, kind in ((user, 0x10000000), (net, 0x40000000)):
    if libc.setns(fd, kind):
        raise OSError(ctypes.get_errno(), "setns: " + os.strerror(ctypes.get_errno()))
listener = socket.create_server(("127.0.0.1", port), backlog=backlog)
socket.send_fds(socket.socket(fileno=0), [b"x"], [listener.fileno()])
"""
"""Joins a network namespace as its owner, which a process with threads may not, and sends back a socket in it."""


def listen_here(port: int) -> socket.socket:
    """A listening socket on this machine's loopback interface, at a free port if `port` is 0."""
    listener = socket.create_server((_LOOPBACK, port), backlog=_BACKLOG)
    listener.setblocking(False)
    return listener


async def listen_inside(pid: int, port: int) -> socket.socket:
    """A listening socket in the network namespace of a process. Raises `SandboxError`."""
    try:
        namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            make = _as_root if os.geteuid() == 0 else _as_owner
            listener = await anyio.to_thread.run_sync(make, namespace, port)
        finally:
            os.close(namespace)
    except OSError as error:
        why = error.strerror or str(error)
        if isinstance(error, PermissionError) and os.geteuid() != 0:
            why += ": with sandbox.backend=docker only root can open one; use bubblewrap, or run as root"
        raise SandboxError(f"sandbox: no socket at port {port} of its network: {why}") from None
    listener.setblocking(False)
    return listener


def _as_root(namespace: int, port: int) -> socket.socket:
    """Joins the namespace in a separate thread, which ends with it."""
    made: list[socket.socket | OSError] = []
    thread = threading.Thread(target=_make, args=(namespace, port, made), name="sandbox-network")
    thread.start()
    thread.join()
    if isinstance(found := made[0], OSError):
        raise found
    return found


def _make(namespace: int, port: int, made: list[socket.socket | OSError]) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, _CLONE_NEWNET):
        number = ctypes.get_errno()
        made.append(OSError(number, os.strerror(number)))
        return
    try:
        made.append(socket.create_server((_LOOPBACK, port), backlog=_BACKLOG))
    except OSError as error:
        made.append(error)


def _as_owner(namespace: int, port: int) -> socket.socket:
    """Has a helper process join the namespace."""
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs:
        command = [sys.executable, "-I", "-S", "-c", _HELPER, str(namespace), str(port), str(_BACKLOG)]
        done = subprocess.run(command, stdin=theirs.fileno(), stderr=subprocess.PIPE, pass_fds=[namespace], check=False)
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().splitlines()
            raise OSError(None, said[-1] if said else "the helper ended without a word")
        _, (fd, *_), *_ = socket.recv_fds(ours, 1, 1)
    return socket.socket(fileno=fd)
