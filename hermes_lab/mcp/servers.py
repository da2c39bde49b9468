"""The MCP servers of a run or a chat, and their tools in an episode."""

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from hermes_lab.config.mcp import McpConfig, McpServerConfig
from hermes_lab.errors import ConfigError, McpError, ToolError
from hermes_lab.mcp.check import check_variables, need_sdk
from hermes_lab.mcp.connection import Connection, Listing, McpRefused, McpTimeout, Place
from hermes_lab.mcp.declaration import Declared
from hermes_lab.mcp.programs import command_inside, extras_of
from hermes_lab.mcp.results import answer_of
from hermes_lab.mcp.snapshot import Snapshot, differences, snapshot_of
from hermes_lab.protocols import Sandbox
from hermes_lab.sandbox.extras import Extras
from hermes_lab.text.printable import printable
from hermes_lab.tools.registry import GivenTool, Tool, ToolContext
from hermes_lab.tools.schema import Declaration
from hermes_lab.tools.toolsets import SERVER
from hermes_lab.types import ServedTools

Open = Callable[..., Sandbox]


class Servers:
    """The servers of a run, of which those of scope `run` are connected. Shared by all its episodes.

    `strict`: what an episode's tools were must be what the run began with, a server of the run that fails makes the
    episode errored, and what servers ask the user is answered by defaults. Otherwise, in a chat, the agent gets an
    error, and such questions are declined.
    """

    def __init__(self, config: McpConfig, blobs: Path | None, *, strict: bool) -> None:
        self.config = config
        self.blobs = blobs
        self.strict = strict
        self.snapshots: dict[str, Snapshot] = {}
        self._connections: dict[str, Connection] = {}
        self._reconnecting = {name: anyio.Lock() for name in config.servers}

    @property
    def served(self) -> Mapping[str, ServedTools]:
        """What is recorded of the servers."""
        return {name: snapshot.served for name, snapshot in self.snapshots.items()}

    @property
    def digests(self) -> dict[str, str]:
        """The digest of each server's tools."""
        return {name: served.digest for name, served in self.served.items()}

    @property
    def extras(self) -> Extras:
        """What the sandboxes of episodes need."""
        return extras_of(self.config)

    def warnings(self) -> list[str]:
        """The tools that are left out, one line each."""
        return [
            printable(f"mcp.servers.{name}: the tool {tool} is left out: {why}")
            for name, served in self.served.items()
            for tool, why in served.left_out.items()
        ]

    async def connect(self, name: str) -> Listing:
        """Connects to a server of scope `run`. Raises `McpError`, also if its tools are not those of the run."""
        connection = Connection(name, self.config.servers[name], defaults=self.strict)
        listing = await connection.open()
        try:
            if name in self.snapshots:
                self.check(name, listing)
        except McpError:
            await connection.aclose()
            raise
        self._connections[name] = connection
        return listing

    async def connected(self, name: str) -> Connection:
        """The connection to a server of scope `run`; a new one if it has ended. Raises `McpError`."""
        if not self._connections[name].ended:
            return self._connections[name]
        async with self._reconnecting[name]:
            if (connection := self._connections[name]).ended:
                await connection.aclose()
                await self.connect(name)
            return self._connections[name]

    def check(self, name: str, listing: Listing) -> None:
        """Raises `McpError` if a server of a run does not list the tools that the run began with."""
        if not self.strict or json.dumps(listing) == json.dumps(self.snapshots[name].listing):
            return  # as in nearly every episode; to declare all tools again takes longer
        try:
            now = snapshot_of(name, self.config.servers[name], listing).served
        except ConfigError as error:  # it has lost a tool that `tools` names
            raise McpError(f"{error} since the run began") from None
        for difference in differences({name: self.snapshots[name].served}, {name: now}):
            raise McpError(f"{difference} since the run began")

    @asynccontextmanager
    async def episode(self, sandbox: Sandbox) -> AsyncIterator["EpisodeServers"]:
        """The servers as one episode has them; those of scope `episode` start in its sandbox."""
        servers = EpisodeServers(self, sandbox)
        try:
            await servers.start()
            yield servers
        finally:
            await servers.aclose()

    async def aclose(self) -> None:
        """Disconnects from all servers."""
        for connection in self._connections.values():
            await connection.aclose()


@asynccontextmanager
async def open_servers(
    config: McpConfig,
    open_sandbox: Open,
    blobs: Path | None = None,
    *,
    strict: bool = True,
    say: Callable[[str], None] | None = None,
) -> AsyncIterator[Servers]:
    """Lists the tools of all servers, and stays connected to those of scope `run`; those of scope `episode` are started
    once in a sandbox of their own.

    Raises `McpError` for a server that fails and `ConfigError` for one that cannot be started; with `strict=False`, in
    a chat, the failure is reported to `say`, and the server is left out.
    """
    need_sdk(config)
    if strict:
        check_variables(config)
    servers = Servers(config, blobs, strict=strict)
    try:
        inside = {name: server for name, server in config.servers.items() if server.in_sandbox}
        async with AsyncExitStack() as stack:
            sandbox = await stack.enter_async_context(open_sandbox(extras_of(config))) if inside else None
            for name, server in config.servers.items():
                try:
                    listing = await (_listing(name, server, sandbox) if server.in_sandbox else servers.connect(name))
                    servers.snapshots[name] = snapshot_of(name, server, listing)
                except (McpError, ConfigError) as error:
                    if strict or say is None:
                        raise
                    say(str(error))
        yield servers
    finally:
        with anyio.CancelScope(shield=True):
            await servers.aclose()


@asynccontextmanager
async def servers_in(config: McpConfig, sandbox: Sandbox) -> AsyncIterator["EpisodeServers"]:
    """Servers of scope `episode` in a single sandbox, outside of a run. Raises `McpError`."""
    servers = Servers(config, None, strict=True)
    for name, server in config.servers.items():
        servers.snapshots[name] = snapshot_of(name, server, await _listing(name, server, sandbox))
    async with servers.episode(sandbox) as here:
        yield here


async def _listing(name: str, server: McpServerConfig, sandbox: Sandbox | None) -> Listing:
    assert sandbox is not None
    connection = Connection(name, server, _place(name, server, sandbox))
    try:
        return await connection.open()
    finally:
        await connection.aclose()


def _place(name: str, server: McpServerConfig, sandbox: Sandbox) -> Place:
    return Place(sandbox, *command_inside(name, server))


@dataclass
class _Served:
    """One server in an episode. `failures` counts what it did not answer, `seen` the changes of `at`, the connection
    of the latest call, that the episode has looked at. `opening` is held while it is started again."""

    snapshot: Snapshot
    connection: Connection | None = None
    failures: int = 0
    at: Connection | None = None
    seen: int = 0
    late: dict[str, Declared] = field(default_factory=dict)
    opening: anyio.Lock = field(default_factory=anyio.Lock)


class EpisodeServers:
    """The servers of one episode and its children. `add_tools` makes tools callable that a server gains later."""

    def __init__(self, servers: Servers, sandbox: Sandbox) -> None:
        self._servers = servers
        self._sandbox = sandbox
        self._here = {name: _Served(snapshot) for name, snapshot in servers.snapshots.items()}
        self.add_tools: Callable[[Sequence[Tool]], None] | None = None

    async def start(self) -> None:
        """Starts the servers of scope `episode`. Raises `McpError`."""
        for name, here in self._here.items():
            if self._servers.config.servers[name].in_sandbox:
                here.connection = await self._started(name)

    async def _started(self, name: str) -> Connection:
        server = self._servers.config.servers[name]
        connection = Connection(name, server, _place(name, server, self._sandbox), defaults=self._servers.strict)
        listing = await connection.open()
        try:
            self._servers.check(name, listing)
        except BaseException:
            await connection.aclose()
            raise
        return connection

    async def aclose(self) -> None:
        """Ends the servers of scope `episode`."""
        for name, here in self._here.items():
            if here.connection and self._servers.config.servers[name].in_sandbox:
                await here.connection.aclose()

    @property
    def tools(self) -> list[Tool]:
        """The tools, by server and name."""
        return [self._tool(name, each) for name, here in self._here.items() for each in here.snapshot.tools.values()]

    def _tool(self, server: str, declared: Declared) -> Tool:
        async def handler(ctx: ToolContext, /, **arguments: Any) -> dict[str, Any]:
            return await self._call(server, declared, arguments, ctx)

        declaration = Declaration(declared.schema, declared.arguments)
        return GivenTool(
            declared.name,
            f"{SERVER}{server}",
            handler,
            parallel=declared.read_only,
            declaration=declaration,
            served=True,
        )

    async def _call(
        self, server: str, declared: Declared, arguments: dict[str, Any], ctx: ToolContext
    ) -> dict[str, Any]:
        here = self._here[server]
        connection = await self._connection(server, here)
        if connection is not here.at:
            here.at, here.seen = connection, 0
        try:
            result = await connection.call(declared.own_name, arguments)
        except McpRefused as error:
            answer: dict[str, Any] = {"error": str(error)}
        except McpError as error:
            raise self._failed(server, here, connection, error) from None
        else:
            here.failures = 0
            answer = await answer_of(result, self._servers.blobs, ctx.config.output_chars)
        if connection.changes > here.seen:
            answer |= await self._news(server, here, connection)
        return answer

    async def _connection(self, server: str, here: _Served) -> Connection:
        try:
            if not self._servers.config.servers[server].in_sandbox:
                return await self._servers.connected(server)
            async with here.opening:
                if here.connection is None or here.connection.ended:
                    if here.connection:
                        await here.connection.aclose()
                    here.connection = await self._started(server)
                return here.connection
        except McpError as error:
            raise self._failed(server, here, None, error) from None

    def _failed(
        self, server: str, here: _Served, connection: Connection | None, error: McpError
    ) -> McpError | ToolError:
        """What a failure means. Within its sandbox, the agent may have killed the server or filled its disk: that is
        its doing. A server of the run that has ended, or answers twice in time no call, is a failure of the
        infrastructure."""
        here.failures += 1
        own = self._servers.config.servers[server].in_sandbox
        timed_out = isinstance(error, McpTimeout)
        if self._servers.strict and not own and (not timed_out or here.failures > 1):
            return error
        if timed_out:
            return ToolError(f"{error}; the call may still have had an effect")
        again = "; the next call restarts it, and its in-memory state is lost" if connection else ""
        return ToolError(f"{error}{again}")

    async def _news(self, server: str, here: _Served, connection: Connection) -> dict[str, Any]:
        """What the agent is told once a server has said that its tools have changed. New ones can be called from now
        on; the schemas stay. Raises `McpError` if, in a run, one of those that it began with has changed, or a server
        that all episodes share does not list its tools."""
        config = self._servers.config.servers[server]
        seen = connection.changes
        try:
            listing = await connection.list(config.timeout)
            there = {tool["name"] for tool in listing.tools}
            chosen = None if config.tools is None else tuple(name for name in config.tools if name in there)
            now = snapshot_of(server, config.model_copy(update={"tools": chosen}), listing)
        except (McpError, ConfigError) as error:
            if self._servers.strict and not config.in_sandbox:
                raise McpError(str(error)) from None
            return {}
        known = {**here.snapshot.tools, **here.late}
        if self._servers.strict:
            listed = now.served.tools
            changed = [
                each.own_name for each in known.values() if listed.get(each.own_name, each.digest) != each.digest
            ]
            if changed:
                raise McpError(f"mcp.servers.{server}: the tool {changed[0]} has changed in an episode")
        here.seen = seen
        new = {name: each for name, each in now.tools.items() if name not in known}
        gone = sorted(name for name in known if name not in now.tools)
        here.late |= new
        if self.add_tools and new:
            self.add_tools([self._tool(server, each) for each in new.values()])
        told = [{"name": n, "description": e.description, "parameters": e.parameters} for n, e in new.items()]
        return ({"new_tools": told} if told else {}) | ({"tools_gone": gone} if gone else {})
