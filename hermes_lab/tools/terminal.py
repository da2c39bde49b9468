"""The `terminal` tool: runs shell commands in the sandbox."""

from typing import Annotated, Any

from hermes_lab.errors import ToolError
from hermes_lab.tools.background import Background
from hermes_lab.tools.paths import folder_path
from hermes_lab.tools.registry import ToolContext, tool
from hermes_lab.tools.schema import When


@tool(toolset="terminal")
async def terminal(
    ctx: ToolContext,
    command: str,
    timeout: float | None = None,
    workdir: str = "",
    background: Annotated[bool, When("process")] = False,
) -> dict[str, Any]:
    """Run a bash command. Directory and exported variables persist.

    Args:
        timeout: Seconds.
        background: Do not wait for it; returns an id for process.
    """
    workdir = folder_path(ctx, workdir)
    if background:
        return {"id": (await ctx.state(Background).start(ctx, command, workdir)).id}
    seconds = ctx.config.timeout if timeout is None else timeout
    if not seconds > 0:
        raise ToolError("timeout: must be greater than 0")
    result = await ctx.sandbox.exec(command, timeout=seconds, workdir=workdir)
    answer: dict[str, Any] = {"output": result.output, "exit_code": result.exit_code}
    if result.timed_out:
        answer["error"] = f"killed after {seconds:g} seconds"
    return answer
