"""A terminal in a sandbox of the test double of Daytona, with the rules of its daemon (apps/daemon, process/pty)."""

import asyncio
import json
import os
import pty
import subprocess
import termios
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from aiohttp import WSCloseCode, WSMsgType, web

_QUEUE = 256


class Terminal:
    """A PTY session of a sandbox's daemon."""

    def __init__(self, command: list[str], asked: Mapping[str, Any], message_seconds: float) -> None:
        self._message_seconds = message_seconds
        self.client: web.WebSocketResponse | None = None
        self.transport: asyncio.Transport | None = None
        self.queue: asyncio.Queue[bytes] = asyncio.Queue(_QUEUE)
        self.master, slave = pty.openpty()
        os.set_blocking(self.master, False)
        termios.tcsetwinsize(slave, (asked.get("rows", 24), asked.get("cols", 80)))

        environment = {"PATH": os.environ["PATH"], "TERM": "xterm-256color", **asked.get("envs", {})}
        self.process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=environment)
        os.close(slave)
        self.loop = asyncio.get_running_loop()
        self.loop.add_reader(self.master, self._read)

    def _read(self) -> None:
        try:
            data = os.read(self.master, 32 * 1024)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.loop.remove_reader(self.master)
            self.loop.create_task(self._reap())
        elif self.client is not None:
            try:
                self.queue.put_nowait(data)
            except asyncio.QueueFull:
                client, self.client = self.client, None
                self.loop.create_task(client.close(code=WSCloseCode.POLICY_VIOLATION, message=b"slow consumer"))

    async def _reap(self) -> None:
        while self.process.poll() is None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        status = self.process.returncode if self.process.returncode >= 0 else 128 - self.process.returncode
        if (client := self.client) is not None:
            self.client = None
            code = WSCloseCode.OK if status == 0 else WSCloseCode.INTERNAL_ERROR
            await client.close(code=code, message=json.dumps({"exitCode": status}).encode())

    async def attach(self, client: web.WebSocketResponse) -> None:
        """Serves a client until it is gone."""
        self.client = client
        await client.send_str('{"status":"connected","type":"control"}')
        writer = self.loop.create_task(self._write(client))
        try:
            async for message in client:
                data = message.data.encode() if message.type == WSMsgType.TEXT else message.data
                view = memoryview(data)
                while view:
                    try:
                        view = view[os.write(self.master, view) :]
                    except BlockingIOError:
                        await asyncio.sleep(0.001)
        except OSError:
            pass
        finally:
            writer.cancel()
            self.client = None

    async def _write(self, client: web.WebSocketResponse) -> None:
        with suppress(ConnectionError):
            while True:
                data = await self.queue.get()
                await asyncio.sleep(self._message_seconds)
                await client.send_bytes(data)

    def kill(self) -> None:
        """Ends its processes, and its connection without a close frame."""
        self.loop.remove_reader(self.master)
        if self.transport is not None:
            self.transport.abort()
        self.process.kill()
        self.process.wait()
        os.close(self.master)
