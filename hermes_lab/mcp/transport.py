"""Streams of MCP messages over the pipes of a program: in a sandbox, or on this machine."""

import json
import os
import re
import shutil
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol

import anyio
import anyio.abc

from hermes_lab.errors import SandboxError
from hermes_lab.sandbox.launch import find_bwrap

if TYPE_CHECKING:
    from hermes_lab.protocols import Process

_HALF = re.compile("[\ud800-\udfff]")
_LONGEST_LINE = 64 << 20
_KEPT_ERRORS = 1 << 14
_GRACE_SECONDS = 2.0
_INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "USER", "LOGNAME", "TMPDIR")


class Pipes(Protocol):
    """The pipes of a running server."""

    async def send(self, data: bytes) -> None:
        """Writes to its stdin. Raises `SandboxError` if it has ended."""
        ...

    async def receive(self) -> bytes:
        """The next bytes of its stdout; empty once it has ended."""
        ...

    def errors(self) -> str:
        """The end of its stderr."""
        ...

    async def end(self) -> None:
        """Closes its stdin, and kills it if it does not end."""
        ...


class SandboxPipes:
    """A server in a sandbox."""

    def __init__(self, process: "Process") -> None:
        self._process = process
        self.send, self.receive, self.errors = process.send, process.receive, process.errors

    async def end(self) -> None:
        """See `Pipes.end`."""
        with anyio.CancelScope(shield=True):
            with suppress(SandboxError):
                await self._process.close_stdin()
            with anyio.move_on_after(_GRACE_SECONDS):
                await self._process.wait()
            await self._process.kill()


class HostPipes:
    """A server on this machine, in a process group, and where bubblewrap works in a process namespace of its own: then
    none of its processes outlives the harness, however that ends."""

    def __init__(self, process: anyio.abc.Process, group: anyio.abc.TaskGroup) -> None:
        self._process = process
        self._stderr = b""
        group.start_soon(self._collect)

    async def _collect(self) -> None:
        assert self._process.stderr is not None
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async for data in self._process.stderr:
                self._stderr = (self._stderr + data)[-_KEPT_ERRORS:]

    async def send(self, data: bytes) -> None:
        """See `Pipes.send`."""
        assert self._process.stdin is not None
        try:
            await self._process.stdin.send(data)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            raise SandboxError("the program has closed its stdin") from None

    async def receive(self) -> bytes:
        """See `Pipes.receive`."""
        assert self._process.stdout is not None
        try:
            return await self._process.stdout.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            return b""

    def errors(self) -> str:
        """See `Pipes.errors`."""
        return self._stderr.decode(errors="replace")

    async def end(self) -> None:
        """See `Pipes.end`."""
        with anyio.CancelScope(shield=True):
            if self._process.stdin is not None:
                with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
                    await self._process.stdin.aclose()
            with anyio.move_on_after(_GRACE_SECONDS):
                await self._process.wait()
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            with anyio.move_on_after(_GRACE_SECONDS):
                await self._process.wait()
            with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
                await self._process.aclose()


@asynccontextmanager
async def host_pipes(command: Sequence[str], environment: Mapping[str, str]) -> AsyncIterator[HostPipes]:
    """Starts a program on this machine. Raises `OSError` if it cannot be started."""
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    whole = [*_alone(), _found(command[0]), *command[1:]]
    process = await anyio.open_process(whole, env={**inherited, **environment}, start_new_session=True)
    async with anyio.create_task_group() as group:
        pipes = HostPipes(process, group)
        try:
            yield pipes
        finally:
            await pipes.end()
            group.cancel_scope.cancel()


def _found(program: str) -> str:
    found = shutil.which(os.path.expanduser(program))  # noqa: PTH111
    if found is None:
        raise FileNotFoundError(f"{program}: no such program on the PATH")
    return found


def _alone() -> list[str]:
    """A command that gives a program its own process namespace; empty where that is not possible."""
    try:
        bwrap = find_bwrap(os.environ.get("PATH", os.defpath))
    except SandboxError:
        return []
    return [bwrap, "--dev-bind", "/", "/", "--proc", "/proc", "--unshare-pid", "--die-with-parent", "--"]


@asynccontextmanager
async def messages_over(pipes: Pipes) -> AsyncIterator[tuple[Any, Any]]:
    """The SDK's pair of streams over the pipes: a JSON message a line. The streams close when the server ends."""
    from mcp.shared.message import SessionMessage

    incoming, read = anyio.create_memory_object_stream[Any](0)
    write, outgoing = anyio.create_memory_object_stream[Any](0)

    async def receive() -> None:
        async with incoming:
            begun: list[bytes] = []
            while data := await pipes.receive():
                *ends, rest = data.split(b"\n")
                lines = [b"".join([*begun, ends[0]]), *ends[1:]] if ends else []
                begun = [rest] if ends else [*begun, rest]
                if sum(map(len, begun)) > _LONGEST_LINE:
                    return
                for line in lines:
                    if not line.strip():
                        continue
                    try:
                        message = _parsed(line)
                    except ValueError:
                        continue  # such as a line that a program logs to its stdout
                    try:
                        await incoming.send(SessionMessage(message))
                    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                        return

    async def send() -> None:
        async with outgoing:
            async for item in outgoing:
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                try:
                    await pipes.send(text.encode() + b"\n")
                except SandboxError:
                    incoming.close()  # so that requests end instead of waiting for ever
                    return

    async with anyio.create_task_group() as group:
        group.start_soon(receive)
        group.start_soon(send)
        try:
            yield read, write
        finally:
            await pipes.end()
            group.cancel_scope.cancel()
            for stream in (read, write, incoming, outgoing):
                stream.close()


def _parsed(line: bytes) -> Any:
    """A message. What is no UTF-8 in it, or half of a character, such as of an emoji that a program in JavaScript has
    cut, becomes U+FFFD: otherwise its request would get no answer. Raises `ValueError`."""
    import mcp_types

    try:
        return mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        whole = json.loads(line.decode(errors="replace"))
        text = _HALF.sub("\ufffd", json.dumps(whole, ensure_ascii=False))
        return mcp_types.jsonrpc_message_adapter.validate_json(text, by_name=False)
