"""A sandbox on another machine."""

import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol, Self

import anyio

from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.errors import ConfigError, SandboxError
from hermes_lab.protocols import ExecResult, Home
from hermes_lab.sandbox.extras import NOTHING_MORE, Extras
from hermes_lab.sandbox.remote.link import Link
from hermes_lab.types import Root

_CLOSE_SECONDS = 60.0
_FIELDS = ("memory_mb", "processes", "file_mb", "disk_mb", "output_chars", "timeout")


class Machine(Protocol):
    """Where sandboxes run. `kind` is the isolation that the worker there provides; `workspace` is a folder there for
    the only sandbox that it has, empty for a folder of each one's own."""

    kind: str
    workspace: str

    async def acquire(self) -> Link:
        """A worker for one sandbox. Raises `SandboxError`."""
        ...

    async def release(self, link: Link) -> None:
        """Gives the worker back."""
        ...


def check_remote(config: SandboxConfig, extras: Extras, root: Root | None) -> None:
    """Raises `ConfigError` for what needs files of this machine."""
    backend = config.backend
    if root is not None:
        raise ConfigError(f"sandbox.backend: {backend} has no system of a task's own; use bubblewrap or docker")
    if extras.home:
        raise ConfigError(f"agent.program: sandbox.backend={backend} does not run programs; use bubblewrap or docker")
    if extras.workspace is not None:
        raise ConfigError(f"sandbox.workspace: a folder of this machine is not seen with sandbox.backend={backend}")
    if extras.installed:
        raise ConfigError(
            f"sandbox.backend: {backend} has no files of this machine, and {extras.installed[0]} is needed in the "
            "sandbox; use bubblewrap or docker"
        )


class RemoteSandbox:
    """A sandbox that a worker on another machine runs: see `hermes_lab.protocols.Sandbox`."""

    def __init__(
        self,
        config: SandboxConfig,
        machine: Machine,
        extras: Extras = NOTHING_MORE,
        root: Root | None = None,
        *,
        host: "RemoteSandbox | None" = None,
    ) -> None:
        check_remote(config, extras, root)
        self._config = config
        self._machine = machine
        self._extras = extras
        self._host = host
        self._link: Link | None = None
        self._number = 0
        self._seen: Mapping[str, Any] = {}
        self._programs: list[RemoteProcess] = []

    async def __aenter__(self) -> Self:
        link = self._host._alive() if self._host else await self._machine.acquire()
        self._link, self._number = link, link.number()
        try:
            head: dict[str, Any] = {"sandbox": self._number}
            if self._host:
                head["host"] = self._host._number
            else:
                config = {name: getattr(self._config, name) for name in _FIELDS} | {"allow_local": True}
                head |= {"kind": self._machine.kind, "config": config, "address_space": self._extras.address_space}
                head["workspace"] = self._machine.workspace
            self._seen, _ = await link.request("open", **head)
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        """See `Sandbox.__aexit__`. Where the connection is lost, the worker does it."""
        if (link := self._link) is None:
            return
        self._link = None
        for program in self._programs:
            program.lost()
        with anyio.CancelScope(shield=True):
            with suppress(SandboxError), anyio.move_on_after(_CLOSE_SECONDS):
                await link.request("close", sandbox=self._number)
            if self._host is None:
                await self._machine.release(link)

    def _alive(self) -> Link:
        if self._link is None:
            raise SandboxError("sandbox: it has ended")
        return self._link

    async def _ask(self, op: str, body: bytes = b"", **head: Any) -> tuple[Mapping[str, Any], bytes]:
        return await self._alive().request(op, body, sandbox=self._number, **head)

    @property
    def workspace_path(self) -> str:
        """See `Sandbox.workspace_path`."""
        return str(self._seen["workspace"])

    @property
    def skills_path(self) -> str:
        """See `Sandbox.skills_path`."""
        return str(self._seen["skills"])

    async def read(self, path: str, limit: int = 10_000_000) -> bytes:
        """See `Workspace.read`."""
        return (await self._ask("read", path=path, limit=limit))[1]

    async def write(self, path: str, data: bytes) -> None:
        """See `Workspace.write`."""
        await self._ask("write", data, path=path)

    async def provide(self, path: str, data: bytes) -> None:
        """See `Sandbox.provide`."""
        await self._ask("provide", data, path=path)

    async def pack(self, limit: int) -> bytes:
        """See `Sandbox.pack`."""
        return (await self._ask("pack", limit=limit))[1]

    async def unpack(self, data: bytes) -> None:
        """See `Sandbox.unpack`."""
        await self._ask("unpack", data)

    async def exec(self, command: str, timeout: float = 180.0, workdir: str = "", fresh: bool = False) -> ExecResult:
        """See `Workspace.exec`."""
        body = command.encode(errors="surrogatepass")
        done, output = await self._ask("exec", body, timeout=timeout, workdir=workdir, fresh=fresh)
        return ExecResult(output.decode(), done["exit_code"], done["timed_out"], done["truncated"])

    async def start(self, command: Sequence[str], environment: Mapping[str, str], workdir: str = "") -> "RemoteProcess":
        """See `Sandbox.start`."""
        number = self._alive().number()
        head: dict[str, Any] = {"command": list(command), "environment": dict(environment), "workdir": workdir}
        program = RemoteProcess(self, number)
        try:
            await self._ask("start", program=number, **head)
        except anyio.get_cancelled_exc_class():
            await program.kill()  # it may have started nonetheless
            raise
        self._programs = [each for each in self._programs if not each.ended]
        self._programs.append(program)
        return program

    async def listen(self, port: int) -> socket.socket:
        """Not possible. Raises `SandboxError`."""
        raise SandboxError(f"sandbox: sandbox.backend={self._config.backend} has no port {port} to this machine")

    @property
    def home(self) -> Home:
        """There is none."""
        raise SandboxError("sandbox: it was opened without a home")

    @property
    def home_path(self) -> str:
        """There is none."""
        raise SandboxError("sandbox: it was opened without a home")

    def fork(self) -> "RemoteSandbox":
        """See `Sandbox.fork`."""
        return RemoteSandbox(self._config, self._machine, self._extras, host=self)


class RemoteProcess:
    """A program with pipes on another machine: see `hermes_lab.protocols.Process`."""

    def __init__(self, sandbox: RemoteSandbox, number: int) -> None:
        self._sandbox = sandbox
        self._number = number
        self._errors = ""
        self._status: int | None = None

    async def _ask(self, does: str, body: bytes = b"") -> tuple[Mapping[str, Any], bytes]:
        if self._status is not None and does == "send":
            raise SandboxError("sandbox: the program has ended")
        answer, data = await self._sandbox._ask("program", body, program=self._number, does=does)
        self._errors = answer["errors"]
        if failed := answer.get("failed"):
            raise SandboxError(failed)
        return answer, data

    @property
    def ended(self) -> bool:
        """Whether its end is known."""
        return self._status is not None

    def lost(self) -> None:
        """Its sandbox has ended, and so has it."""
        if self._status is None:
            self._status = 137

    async def send(self, data: bytes) -> None:
        """See `Process.send`."""
        await self._ask("send", data)

    async def close_stdin(self) -> None:
        """See `Process.close_stdin`."""
        await self._ask("close_stdin")

    async def receive(self) -> bytes:
        """See `Process.receive`."""
        try:
            return (await self._ask("receive"))[1]
        except SandboxError:
            if self._status is None:
                raise
            return b""

    def errors(self) -> str:
        """See `Process.errors`; as of the last answer."""
        return self._errors

    async def wait(self) -> int:
        """See `Process.wait`."""
        if self._status is None:
            try:
                self._status = int((await self._ask("wait"))[0]["status"])
            except SandboxError:
                if self._status is None:  # else its sandbox has ended meanwhile
                    raise
        return self._status

    async def kill(self) -> None:
        """See `Process.kill`."""
        if self._status is None:
            with anyio.CancelScope(shield=True), suppress(SandboxError), anyio.move_on_after(_CLOSE_SECONDS):
                await self._ask("kill")
            self.lost()
