"""The tools of MCP servers in a replay, which calls no server."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from hermes_lab.errors import ToolError
from hermes_lab.mcp.declaration import arguments_of
from hermes_lab.protocols import Sandbox
from hermes_lab.sandbox.extras import NOTHING_MORE
from hermes_lab.tools.registry import GivenTool, Tool, ToolContext
from hermes_lab.tools.schema import Declaration
from hermes_lab.tools.toolsets import SEPARATOR, SERVER
from hermes_lab.types import Episode, Trajectory


class RecordedServers:
    """Takes the place of `Servers` in a replay: the tools as the episode had them. The agent answers their calls from
    the record."""

    extras = NOTHING_MORE

    def __init__(self, episode: Episode) -> None:
        self.digests = dict(episode.mcp)
        self.add_tools: Callable[[Sequence[Tool]], None] | None = None
        self._trajectory = episode.trajectory
        self._schemas = _served(episode.trajectory, self.digests)

    @asynccontextmanager
    async def episode(self, sandbox: Sandbox) -> AsyncIterator["RecordedServers"]:
        """The same for its only episode."""
        del sandbox
        yield self

    @property
    def tools(self) -> list[Tool]:
        """The tools."""
        return [_tool(schema) for schema in self._schemas]


def _served(trajectory: Trajectory | None, servers: Mapping[str, str]) -> list[Mapping[str, Any]]:
    schemas = trajectory.tools if trajectory else ()
    return [each for each in schemas if each["function"]["name"].partition(SEPARATOR)[0] in servers]


def _tool(schema: Mapping[str, Any]) -> Tool:
    name, parameters = schema["function"]["name"], schema["function"]["parameters"]

    async def handler(ctx: ToolContext, /, **arguments: Any) -> dict[str, Any]:
        del ctx, arguments
        raise ToolError(f"{name} is not called in a replay")

    declaration = Declaration(dict(schema), arguments_of(parameters))
    return GivenTool(name, f"{SERVER}{name.partition(SEPARATOR)[0]}", handler, declaration=declaration, served=True)
