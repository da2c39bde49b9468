"""A client of the Agent Client Protocol, version 1: JSON-RPC 2.0 on the program's stdin and stdout, a message a line.

https://agentclientprotocol.com. It grants every permission that the program asks for, since the sandbox confines it,
and offers no files or terminals of its own.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import anyio

from hermes_lab.errors import ProgramError, SandboxError
from hermes_lab.harness.program import Ended, no_command
from hermes_lab.protocols import Process, Sandbox

_VERSION = 1
_LONGEST = 8 << 20
"""Bytes of the longest message."""
_START_SECONDS = 120.0
_NO_METHOD = -32601


class AcpConversation:
    """One session of a server of the protocol (`Conversation`). The server starts with the first prompt."""

    def __init__(
        self, sandbox: Sandbox, command: Sequence[str], environment: Mapping[str, str], workspace: str
    ) -> None:
        self._sandbox = sandbox
        self._command = command
        self._environment = environment
        self._workspace = workspace
        self._process: Process | None = None
        self._received = b""
        self._number = 0
        self._session = ""

    async def turn(self, prompt: str) -> Ended:
        """See `Conversation.turn`."""
        if self._process is None:
            with anyio.move_on_after(_START_SECONDS) as limit:
                await self._open()
            if limit.cancelled_caught:
                raise ProgramError(f"{self._command[0]}: opened no session within {_START_SECONDS:g} seconds")
        content = [{"type": "text", "text": no_command(prompt)}]
        await self._call("session/prompt", {"sessionId": self._session, "prompt": content})
        assert self._process is not None
        return Ended(0, "", self._process.errors())

    async def aclose(self) -> None:
        """See `Conversation.aclose`."""
        if self._process is not None:
            await self._process.kill()

    async def _open(self) -> None:
        self._process = await self._sandbox.start(self._command, self._environment)
        about = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
        client = {"name": "hermes-lab", "version": "1"}
        said = await self._call(
            "initialize", {"protocolVersion": _VERSION, "clientCapabilities": about, "clientInfo": client}
        )
        if said.get("protocolVersion") != _VERSION:
            raise ProgramError(
                f"{self._command[0]}: speaks version {said.get('protocolVersion')} of the Agent Client Protocol, not "
                f"{_VERSION}"
            )
        opened = await self._call("session/new", {"cwd": self._workspace, "mcpServers": []})
        if not isinstance(session := opened.get("sessionId"), str):
            raise ProgramError(f"{self._command[0]}: session/new was answered without a sessionId")
        self._session = session

    async def _call(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Sends a request and answers the server's own ones until its response arrives."""
        self._number += 1
        number = self._number
        await self._send({"id": number, "method": method, "params": params})
        while True:
            message = await self._next(method)
            if "method" in message:
                if "id" in message:
                    await self._answer(message)
                continue
            if message.get("id") != number:
                continue  # the response to a request that was given up
            if error := message.get("error"):
                said = error.get("message") if isinstance(error, dict) else error
                raise ProgramError(f"{self._command[0]}: {method} failed: {said}{self._errors()}")
            result = message.get("result")
            return result if isinstance(result, dict) else {}

    async def _answer(self, request: Mapping[str, Any]) -> None:
        if request["method"] != "session/request_permission":
            error = {"code": _NO_METHOD, "message": f"not offered by this client: {request['method']}"}
            await self._send({"id": request["id"], "error": error})
            return
        outcome = {"outcome": "cancelled"}
        params = request.get("params")
        if option := _granting(params.get("options") if isinstance(params, dict) else None):
            outcome = {"outcome": "selected", "optionId": option}
        await self._send({"id": request["id"], "result": {"outcome": outcome}})

    async def _send(self, message: Mapping[str, Any]) -> None:
        assert self._process is not None
        with suppress(SandboxError):  # it has ended, as reading from it will tell
            await self._process.send(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def _next(self, waiting_for: str) -> Mapping[str, Any]:
        """The next message. Programs may print other lines; these are passed over."""
        assert self._process is not None
        while True:
            line, newline, rest = self._received.partition(b"\n")
            if newline:
                self._received = rest
                if (message := _decoded(line)) is not None:
                    return message
                continue
            if len(self._received) > _LONGEST:
                raise ProgramError(f"{self._command[0]}: sent a message of more than {_LONGEST >> 20} MiB")
            data = await self._process.receive()
            if not data:
                status = await self._process.wait()
                raise ProgramError(
                    f"{self._command[0]}: ended with status {status} before it answered {waiting_for}{self._errors()}"
                )
            self._received += data

    def _errors(self) -> str:
        assert self._process is not None
        said = self._process.errors().strip().splitlines()
        return f": {said[-1][:300]}" if said else ""


def _decoded(line: bytes) -> Mapping[str, Any] | None:
    try:
        message = json.loads(line)
    except ValueError:
        return None
    return message if isinstance(message, dict) else None


def _granting(options: object) -> str:
    """The option that allows most: always, else once."""
    found = [each for each in options if isinstance(each, dict)] if isinstance(options, list) else []
    for kind in ("allow_always", "allow_once"):
        for option in found:
            if option.get("kind") == kind and isinstance(option.get("optionId"), str):
                return str(option["optionId"])
    return ""
