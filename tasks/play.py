"""Runs the tool calls of scripted policies with the real tools, without a model."""

from collections.abc import Callable, Iterable
from functools import partial

from hermes_lab.config.mcp import McpConfig
from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.mcp.programs import extras_of
from hermes_lab.mcp.servers import servers_in
from hermes_lab.protocols import Sandbox, Suite
from hermes_lab.sandbox import open_sandbox
from hermes_lab.suites import servers_of
from hermes_lab.tasks.family import Action
from hermes_lab.tools.registry import Tool, ToolContext
from hermes_lab.tools.toolbox import Toolbox
from hermes_lab.types import Task, ToolCall, ToolResult

TOOLSETS = ("terminal", "file", "web")


def opener(config: SandboxConfig, suite: Suite) -> Callable[[], Sandbox]:
    """Opens sandboxes in which the suite's own servers can run."""
    return partial(open_sandbox, config, extras_of(servers_of(McpConfig(), suite)))


async def play(actions: Iterable[Action], task: Task, sandbox: Sandbox, suite: Suite | None = None) -> list[ToolResult]:
    """Runs tool calls one after the other, with the servers that the `suite` brings. Raises `InfraError` if the sandbox
    fails."""
    servers = servers_of(McpConfig(), suite) if suite else McpConfig()
    if not servers.servers:
        return await _play(actions, task, sandbox, ())
    async with servers_in(servers, sandbox) as here:
        return await _play(actions, task, sandbox, here.tools)


async def _play(actions: Iterable[Action], task: Task, sandbox: Sandbox, given: Iterable[Tool]) -> list[ToolResult]:
    context = ToolContext(sandbox=sandbox, skills=None, config=SandboxConfig(), pages=task.pages)
    toolbox = Toolbox(TOOLSETS, context, given=list(given))
    return [
        await toolbox.run(ToolCall(id=f"call_{n}", name=action.tool, arguments=dict(action.arguments)))
        for n, action in enumerate(actions, 1)
    ]
