"""Containers of the test double of Modal: bubblewrap over this machine's programs."""

import asyncio
import os
import secrets
import shutil
import signal
import string
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from modal_proto import api_pb2 as api

_ETC = ("etc/passwd", "etc/group", "etc/ld.so.cache", "etc/alternatives")
_SYSTEM = ("usr", "bin", "sbin", "lib", "lib32", "lib64", *_ETC)
_LETTERS = string.ascii_letters + string.digits
STATUS = api.GenericResult


def new_id(prefix: str, length: int = 22) -> str:
    return f"{prefix}-{''.join(secrets.choice(_LETTERS) for _ in range(length))}"


class Exec:
    """A program in a container. What it said stays, so that it is read from any byte."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.received = 0
        self.closed = False
        self.said = {1: bytearray(), 2: bytearray()}
        self.ended: set[int] = set()
        self.news = asyncio.Condition()
        self.pumps = [
            asyncio.create_task(self._pump(number, stream))
            for number, stream in ((1, process.stdout), (2, process.stderr))
        ]

    async def _pump(self, number: int, stream: asyncio.StreamReader | None) -> None:
        assert stream is not None
        while data := await stream.read(1 << 16):
            async with self.news:
                self.said[number] += data
                self.news.notify_all()
        async with self.news:
            self.ended.add(number)
            self.news.notify_all()


class Container:
    """A sandbox: its definition as it was asked for, its programs, and its result once it has ended."""

    def __init__(self, request: Any, volumes: dict[str, Path], *, second: bool) -> None:
        self.second = second  # of the second kind (V2), which Modal makes unless a GPU is asked for
        self.id = new_id("sb", 26 if second else 22)
        self.task = new_id("ta", 21) + ("V" if second else "t")
        self.app: str = request.app_id
        self.definition: api.Sandbox = request.definition
        self.tags = {tag.tag_name: tag.tag_value for tag in request.tags}
        self.created = time.time()
        self.looked = False
        self.result: api.GenericResult | None = None
        self.execs: dict[str, Exec] = {}
        self._volumes = volumes
        self._root = Path(tempfile.mkdtemp(prefix="modal-"))
        self._tasks: list[asyncio.Task[None]] = []
        self._main: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        arguments = list(self.definition.entrypoint_args) or ["python3"]  # as the image says
        self._main = await self._spawn(arguments, {}, "")
        self._tasks += [asyncio.create_task(self._watch()), asyncio.create_task(self._lifetime())]

    async def _watch(self) -> None:
        assert self._main is not None
        code = await self._main.wait()
        status = STATUS.GENERIC_STATUS_FAILURE if code else STATUS.GENERIC_STATUS_SUCCESS
        await self.end(status, code)

    async def _lifetime(self) -> None:
        await asyncio.sleep(self.definition.timeout_secs)
        await self.end(STATUS.GENERIC_STATUS_TIMEOUT)

    async def run(self, id: str, arguments: list[str], environment: dict[str, str], workdir: str) -> None:
        """Runs a program, once for each id."""
        if id not in self.execs:
            self.execs[id] = Exec(await self._spawn(arguments, environment, workdir, pipes=True))

    async def _spawn(
        self, arguments: list[str], environment: dict[str, str], workdir: str, *, pipes: bool = False
    ) -> asyncio.subprocess.Process:
        command = ["bwrap", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--die-with-parent", "--cap-drop", "ALL"]
        if self.definition.network_access.network_access_type == api.NetworkAccess.NetworkAccessType.BLOCKED:
            command.append("--unshare-net")
        command += ["--bind", str(self._root), "/"]
        for name in _SYSTEM:
            path = Path("/") / name
            if path.is_symlink():
                if not (self._root / name).is_symlink():
                    (self._root / name).symlink_to(path.readlink())
            elif path.exists():
                command += ["--ro-bind", str(path), f"/{name}"]
        command += ["--proc", "/proc", "--dev", "/dev", "--dir", "/tmp", "--dir", "/root"]
        for mount in self.definition.volume_mounts:
            kind = "--ro-bind" if mount.read_only else "--bind"
            command += [kind, str(self._volumes[mount.volume_id]), mount.mount_path]
        variables = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/root"} | environment
        command += ["--chdir", workdir or "/", "--clearenv"]
        command += [part for name, value in variables.items() for part in ("--setenv", name, value)]
        pipe = asyncio.subprocess.PIPE if pipes else asyncio.subprocess.DEVNULL
        return await asyncio.create_subprocess_exec(
            *command, "--", *arguments, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
        )

    async def end(self, status: Any, code: int = 0, exception: str = "") -> None:
        """Ends it, unless it has ended."""
        if self.result is not None:
            return
        self.result = api.GenericResult(status=status, exitcode=code, exception=exception)
        processes = [each.process for each in self.execs.values()]
        for process in [*processes, *([self._main] if self._main else [])]:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        for each in self.execs.values():
            await asyncio.gather(*each.pumps)
        for task in self._tasks:
            if task is not asyncio.current_task():
                task.cancel()
        shutil.rmtree(self._root, ignore_errors=True)
