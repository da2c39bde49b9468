"""The MCP servers of a chat, which can be connected again while it goes on."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from hermes_lab.chat.turns import FOLDER
from hermes_lab.config.mcp import McpConfig
from hermes_lab.mcp.results import FOLDER as BLOBS
from hermes_lab.mcp.servers import EpisodeServers, Open, open_servers
from hermes_lab.mcp.snapshot import differences
from hermes_lab.protocols import Sandbox
from hermes_lab.sessions import hermes_home
from hermes_lab.tools.registry import Tool
from hermes_lab.tools.toolbox import Toolbox
from hermes_lab.types import ServedTools


class ChatServers:
    """The servers as the chat has them now. A server that fails is left out, and reported to `say`."""

    def __init__(self, config: McpConfig, open_sandbox: Open, sandbox: Sandbox, say: Callable[[str], None]) -> None:
        self.config = config
        self.served: Mapping[str, ServedTools] = {}
        self._open_sandbox = open_sandbox
        self._sandbox = sandbox
        self._say = say
        self._stack = AsyncExitStack()
        self._servers: EpisodeServers | None = None

    @property
    def tools(self) -> Sequence[Tool]:
        """The tools that the servers offer."""
        return self._servers.tools if self._servers else ()

    async def connect(self) -> None:
        """Connects to the servers."""
        if not self.config.servers:
            return
        blobs = hermes_home() / FOLDER / BLOBS
        opening = open_servers(self.config, self._open_sandbox, blobs, strict=False, say=self._say)
        servers = await self._stack.enter_async_context(opening)
        self._servers = await self._stack.enter_async_context(servers.episode(self._sandbox))
        self.served = servers.served
        for warning in servers.warnings():
            self._say(warning)

    def join(self, toolbox: Toolbox) -> None:
        """Makes tools that a server gains later callable in that toolbox."""
        if self._servers:
            self._servers.add_tools = toolbox.add_tools

    async def reload(self, config: McpConfig) -> list[str]:
        """Connects again, with another configuration. Returns what has changed, a line each."""
        before = self.served
        await self.aclose()
        self.config, self.served, self._servers = config, {}, None
        await self.connect()
        return list(differences(before, self.served))

    async def aclose(self) -> None:
        """Disconnects."""
        await self._stack.aclose()


@asynccontextmanager
async def open_chat_servers(
    config: McpConfig, open_sandbox: Open, sandbox: Sandbox, say: Callable[[str], None]
) -> AsyncIterator[ChatServers]:
    """The connected servers of a chat in that sandbox."""
    servers = ChatServers(config, open_sandbox, sandbox, say)
    try:
        await servers.connect()
        yield servers
    finally:
        await servers.aclose()
