"""The other end: runs sandboxes on the machine where it was started, for whoever holds its stdin and stdout.

It is sent to that machine with the modules that it needs (`hermes_lab.sandbox.remote.package`), so it imports the
standard library, anyio and the sandboxes alone. When its stdin ends, however that came, it ends all sandboxes.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import anyio

from hermes_lab.errors import SandboxError, ToolError
from hermes_lab.sandbox.bubblewrap import BubblewrapSandbox
from hermes_lab.sandbox.extras import Extras
from hermes_lab.sandbox.local import LocalSandbox
from hermes_lab.sandbox.remote.frames import Decoder, Frame, encode

if TYPE_CHECKING:
    from hermes_lab.sandbox.process import SandboxProcess
    from hermes_lab.sandbox.warm import WarmSandbox

READY = b"\nhermes-lab worker ready\n"
"""What the worker says first; whatever a shell printed before is skipped."""
_CHUNK = 1 << 16
_KINDS = {"bubblewrap": BubblewrapSandbox, "local": LocalSandbox}


class Worker:
    """Answers requests. Each has an id; a request is answered with its id, once it is done, in any order."""

    def __init__(self, out: int) -> None:
        self._out = out
        self._sending = anyio.Lock()
        self._sandboxes: dict[int, WarmSandbox] = {}
        self._programs: dict[int, tuple[int, SandboxProcess]] = {}
        self._requests: dict[int, tuple[int, anyio.CancelScope]] = {}

    async def serve(self, source: int) -> None:
        """Serves until `source` ends, then ends all sandboxes."""
        decoder = Decoder()
        try:
            async with anyio.create_task_group() as group:
                while True:
                    await anyio.wait_readable(source)
                    if not (data := os.read(source, _CHUNK)):
                        break
                    for frame in decoder.feed(data):
                        if "cancel" in frame.head:
                            if request := self._requests.get(frame.head["cancel"]):
                                request[1].cancel()
                        else:
                            # Known at once: what cancels it may be the next frame.
                            scope = anyio.CancelScope()
                            self._requests[frame.head["id"]] = frame.head.get("sandbox", -1), scope
                            group.start_soon(self._handle, frame, scope)
                group.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                for sandbox in tuple(self._sandboxes.values()):
                    with suppress(Exception):
                        await sandbox.__aexit__()

    async def _handle(self, frame: Frame, scope: anyio.CancelScope) -> None:
        head = frame.head
        number = head["id"]
        reply, body = {"id": number, "error": ["SandboxError", "cancelled"]}, b""
        try:
            with scope:
                try:
                    answer, body = await getattr(self, f"_{head['op']}")(head, frame.body)
                    reply = {"id": number, "ok": answer}
                except ToolError as error:
                    reply["error"] = ["ToolError", str(error)]
                except SandboxError as error:
                    reply["error"] = ["SandboxError", str(error)]
                except Exception as error:
                    reply["error"] = ["SandboxError", f"sandbox: {type(error).__name__}: {error}"]
        finally:
            del self._requests[number]
        await self._say(reply, body)

    async def _say(self, head: dict[str, Any], body: bytes) -> None:
        view = memoryview(encode(head, body))
        async with self._sending:
            while view:
                try:
                    view = view[os.write(self._out, view) :]
                except BlockingIOError:
                    await anyio.wait_writable(self._out)

    def _of(self, head: dict[str, Any]) -> WarmSandbox:
        try:
            return self._sandboxes[head["sandbox"]]
        except KeyError:
            raise SandboxError("sandbox: it has ended") from None

    async def _open(self, head: dict[str, Any], body: bytes) -> tuple[dict[str, Any], bytes]:
        del body
        if (host := head.get("host")) is not None:
            sandbox = self._sandboxes[host].fork()
        else:
            config: Any = SimpleNamespace(**head["config"])
            workspace = Path(head["workspace"]) if head["workspace"] else None
            if workspace:
                workspace.mkdir(parents=True, exist_ok=True)
            sandbox = _KINDS[head["kind"]](config, Extras(address_space=head["address_space"], workspace=workspace))
        try:
            await sandbox.__aenter__()
        except ImportError as error:
            raise SandboxError(f"sandbox: {error}") from None
        self._sandboxes[head["sandbox"]] = sandbox
        return {"workspace": sandbox.workspace_path, "skills": sandbox.skills_path}, b""

    async def _close(self, head: dict[str, Any], body: bytes) -> tuple[dict[str, Any], bytes]:
        """Ends a sandbox, once what it still does has ended."""
        del body
        number = head["sandbox"]
        with anyio.CancelScope(shield=True):
            others = [id for id, (place, _) in self._requests.items() if place == number and id != head["id"]]
            for id in others:
                self._requests[id][1].cancel()
            while any(id in self._requests for id in others):  # noqa: ASYNC110
                await anyio.sleep(0.002)
            self._programs = {id: (place, each) for id, (place, each) in self._programs.items() if place != number}
            if (sandbox := self._sandboxes.pop(number, None)) is not None:
                await sandbox.__aexit__()
        return {}, b""

    async def _read(self, head: dict[str, Any], body: bytes) -> tuple[dict[str, Any], bytes]:
        del body
        return {}, await self._of(head).read(head["path"], head["limit"])

    async def _write(self, head: dict[str, Any], body: bytes) -> tuple[dict[str, Any], bytes]:
        await self._of(head).write(head["path"], body)
        return {}, b""

    async def _provide(self, head: dict[str, Any], body: bytes) -> tuple[dict[str, Any], bytes]:
        await self._of(head).provide(head["path"], body)
        return {}, b""

    async def _exec(self, head: dict[str, Any], body: bytes) -> tuple[dict[str, Any], bytes]:
        command = body.decode(errors="surrogatepass")
        done = await self._of(head).exec(command, head["timeout"], head["workdir"], head["fresh"])
        answer = {"exit_code": done.exit_code, "timed_out": done.timed_out, "truncated": done.truncated}
        return answer, done.output.encode()

    async def _pack(self, head: dict[str, Any], body: bytes) -> tuple[dict[str, Any], bytes]:
        del body
        return {}, await self._of(head).pack(head["limit"])

    async def _unpack(self, head: dict[str, Any], body: bytes) -> tuple[dict[str, Any], bytes]:
        await self._of(head).unpack(body)
        return {}, b""

    async def _start(self, head: dict[str, Any], body: bytes) -> tuple[dict[str, Any], bytes]:
        del body
        program = await self._of(head).start(head["command"], head["environment"], head["workdir"])
        self._programs[head["program"]] = head["sandbox"], program
        return {}, b""

    async def _program(self, head: dict[str, Any], body: bytes) -> tuple[dict[str, Any], bytes]:
        """What is asked of a program; every answer has the end of its stderr."""
        if (found := self._programs.get(head["program"])) is None:
            raise SandboxError("sandbox: the program has ended")
        program, status, data = found[1], None, b""
        try:
            match head["does"]:
                case "send":
                    await program.send(body)
                case "receive":
                    data = await program.receive()
                case "close_stdin":
                    await program.close_stdin()
                case "wait":
                    status = await program.wait()
                case "kill":
                    await program.kill()
        except SandboxError as error:
            return {"errors": program.errors(), "failed": str(error)}, b""
        return {"errors": program.errors(), "status": status}, data


async def main() -> None:
    """Serves stdin and stdout. What modules print goes to stderr."""
    source, out = os.dup(0), os.dup(1)
    os.dup2(2, 1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.set_blocking(out, False)
    for fd in (source, out):
        os.set_inheritable(fd, False)
    await Worker(out).serve(source)


def run() -> None:
    """Runs the worker; called by what starts it."""
    os.write(1, READY)
    asyncio.run(main())
