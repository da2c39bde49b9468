"""The `delegate_task` tool: runs a child agent."""

from typing import Any

from hermes_lab.errors import ToolError
from hermes_lab.tools.registry import ToolContext, tool


@tool(toolset="delegation", parallel=True, serves=lambda ctx, _offered: ctx.delegate is not None)
async def delegate_task(
    ctx: ToolContext, goal: str, context: str = "", toolsets: list[str] | None = None
) -> dict[str, Any]:
    """Have a child agent do a part of the work, and get its final answer. It works in the same folder with a shell of
    its own, and sees nothing of this conversation. Calls in one turn work side by side: let them write different files.

    Args:
        goal: What to do, and what to answer.
        context: All that it must know: paths, facts, constraints.
        toolsets: Leaves it only these of your toolsets or tools.
    """
    if not goal.strip():
        raise ToolError("goal: say what the child is to do")
    if ctx.delegate is None:
        raise ToolError("there are no child agents here; do the work yourself")
    return await ctx.delegate(goal, context, tuple(toolsets or ()))
