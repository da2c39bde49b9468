"""The `delegate_task` tool: runs a child agent."""

from typing import Any

from hermes_lab.errors import ToolError
from hermes_lab.tools.registry import ToolContext, tool


@tool(toolset="delegation", parallel=True, serves=lambda ctx, _offered: ctx.delegate is not None)
async def delegate_task(
    ctx: ToolContext, goal: str, context: str = "", toolsets: list[str] | None = None
) -> dict[str, Any]:
    """Let a child agent do part of the work, and get its final answer. It has its own shell in the same directory, and
    does not see this conversation. Calls in one turn run in parallel and should write different files.

    Args:
        goal: What to do, and what to report back.
        context: Everything it needs to know: paths, facts, constraints.
        toolsets: Limits it to these of your toolsets or tools.
    """
    if not goal.strip():
        raise ToolError("goal: must not be empty")
    if ctx.delegate is None:
        raise ToolError("child agents are not available here; do the work yourself")
    return await ctx.delegate(goal, context, tuple(toolsets or ()))
