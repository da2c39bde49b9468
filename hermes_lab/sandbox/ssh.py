"""The ssh backend: sandboxes on a machine that is reached by ssh."""

import getpass
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from hermes_lab.config.sandboxes import Promise, SandboxConfig
from hermes_lab.errors import ConfigError, SandboxError
from hermes_lab.sandbox.remote.link import Link
from hermes_lab.sandbox.remote.package import package

if TYPE_CHECKING:
    from asyncssh import SSHClientConnection, SSHClientProcess

_CONNECT_SECONDS = 30.0
_ALIVE_SECONDS = 15
_KEPT_ERRORS = 1 << 14
_ESCAPES = "a process that clears its environment (env -i) outlives the episode and escapes all limits"
UNKEPT: Mapping[Promise, str] = {
    "isolation": "no isolation: the agent's commands run as your user on that machine, with access to its files, "
    "processes and network",
    "no_network": "commands have the network of that machine",
    "verifier": "commands run as the same user as the verifier's, and could interfere with them",
    "memory": _ESCAPES,
    "disk": _ESCAPES,
    "processes": "no limit on the number of processes, and /tmp is shared with that machine",
    "no_orphans": "a process that clears its environment keeps running on that machine",
}
"""The promises that are not kept with `sandbox.ssh.isolation=none`. With bubblewrap all are."""


class SshMachine:
    """A machine with one connection and one worker, which its sandboxes share. A lost connection is not made anew for
    sandboxes that it had, but for the next one."""

    def __init__(self, config: SandboxConfig, *, keeps: bool = True) -> None:
        """`keeps`: whether the connection stays when no sandbox uses it, until `aclose`."""
        if not config.ssh.host:
            raise ConfigError("sandbox.ssh.host: name the machine for sandbox.backend=ssh")
        try:
            import asyncssh  # noqa: F401
        except ImportError:
            raise ConfigError("sandbox.backend: ssh needs asyncssh: pip install 'hermes-lab[ssh]'") from None
        self.workspace = ""
        self.kind = "bubblewrap" if config.ssh.isolation == "bubblewrap" else "local"
        self._config = config.ssh
        self._keeps = keeps
        self._link: Link | None = None
        self._opening = anyio.Lock()

    @property
    def where(self) -> str:
        """The machine, for messages."""
        return f"ssh {self._config.host}" + (f":{self._config.port}" if self._config.port != 22 else "")

    async def acquire(self) -> Link:
        """See `Machine.acquire`."""
        async with self._opening:
            if self._link is None or not self._link.alive:
                if self._link is not None:
                    await self._link.aclose()
                    self._link = None
                self._link = await self._connected()
            return self._link

    async def release(self, link: Link) -> None:
        """The worker stays for other sandboxes, unless this was the only one."""
        del link
        if not self._keeps:
            await self.aclose()

    async def aclose(self) -> None:
        """Disconnects; the worker ends."""
        if self._link is not None:
            await self._link.aclose()
            self._link = None

    async def _connected(self) -> Link:
        connection = await self._connection()
        try:
            process = await connection.create_process(package().command(self._config.python), encoding=None)
            link = Link(_Channel(connection, process), self.where)
            await link.open(package(), self._config.python)
        except BaseException:
            connection.abort()
            raise
        return link

    async def _connection(self) -> "SSHClientConnection":
        import asyncssh

        config = self._config
        options: dict[str, Any] = {
            "port": config.port,
            "username": config.user or getpass.getuser(),
            "agent_forwarding": False,
            "x11_forwarding": False,
            "preferred_auth": ["publickey"],
            "password": None,
            "keepalive_interval": _ALIVE_SECONDS,
            "keepalive_count_max": 3,
            "connect_timeout": _CONNECT_SECONDS,
            "login_timeout": _CONNECT_SECONDS,
        }
        if config.key_file:
            options["client_keys"] = [str(_existing(config.key_file, "key_file"))]
        if config.known_hosts:
            options["known_hosts"] = str(_existing(config.known_hosts, "known_hosts"))
        try:
            return await asyncssh.connect(config.host, **options)
        except asyncssh.HostKeyNotVerifiable as error:
            file = config.known_hosts or "~/.ssh/known_hosts"
            port = f" -p {config.port}" if config.port != 22 else ""
            raise SandboxError(
                f"sandbox: {self.where}: {file} does not have this host key ({error.reason}); compare the key, then "
                f"add it: ssh-keyscan{port} {config.host} >> {file}"
            ) from None
        except asyncssh.PermissionDenied:
            who = config.key_file or "the keys of your ssh agent and of ~/.ssh"
            raise SandboxError(
                f"sandbox: {self.where}: {options['username']} is refused; it does not accept {who}"
            ) from None
        except (asyncssh.Error, OSError, TimeoutError) as error:
            said = " ".join(str(error).split()) or type(error).__name__
            raise SandboxError(f"sandbox: {self.where}: cannot connect: {said}") from None
        except ValueError as error:  # such as a key file with a passphrase
            raise ConfigError(f"sandbox.ssh: {error}") from None


def _existing(path: str, field: str) -> Path:
    found = Path(path).expanduser()
    if not found.is_file():
        raise ConfigError(f"sandbox.ssh.{field}: {path}: no such file")
    return found


class _Channel:
    """See `ByteStream`."""

    def __init__(self, connection: "SSHClientConnection", process: "SSHClientProcess[bytes]") -> None:
        self._connection = connection
        self._process = process
        self._stderr = b""

    async def send(self, data: bytes) -> None:
        """See `ByteStream.send`."""
        try:
            self._process.stdin.write(data)
            await self._process.stdin.drain()
        except Exception as error:  # asyncssh's own, which are no OSError
            raise OSError(str(error) or type(error).__name__) from None

    async def receive(self) -> bytes:
        """See `ByteStream.receive`."""
        try:
            data: bytes = await self._process.stdout.read(1 << 16)
        except Exception:
            data = b""
        if not data:
            with suppress(Exception), anyio.move_on_after(1):
                self._stderr = (await self._process.stderr.read(_KEPT_ERRORS))[-_KEPT_ERRORS:]
        return data

    def errors(self) -> str:
        """See `ByteStream.errors`."""
        return self._stderr.decode(errors="replace")

    async def aclose(self) -> None:
        """See `ByteStream.aclose`. The worker ends its sandboxes before it exits."""
        with suppress(Exception):
            self._process.stdin.write_eof()
            with anyio.move_on_after(5):
                await self._process.wait_closed()
        self._connection.close()
        with suppress(Exception), anyio.move_on_after(5):
            await self._connection.wait_closed()
