"""Runs the tool calls of scripted policies with the real tools, without a model."""

from collections.abc import Iterable

from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.protocols import Sandbox
from hermes_lab.tasks.family import Action
from hermes_lab.tools.registry import ToolContext
from hermes_lab.tools.toolbox import Toolbox
from hermes_lab.types import Task, ToolCall, ToolResult

TOOLSETS = ("terminal", "file", "web")


async def play(actions: Iterable[Action], task: Task, sandbox: Sandbox) -> list[ToolResult]:
    """Runs tool calls one after the other. Raises `InfraError` if the sandbox fails."""
    toolbox = Toolbox(TOOLSETS, ToolContext(sandbox=sandbox, skills=None, config=SandboxConfig(), pages=task.pages))
    return [
        await toolbox.run(ToolCall(id=f"call_{n}", name=action.tool, arguments=dict(action.arguments)))
        for n, action in enumerate(actions, 1)
    ]
