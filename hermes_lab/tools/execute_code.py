"""The `execute_code` tool: runs Python scripts in the sandbox."""

import shlex
from typing import Annotated, Any

from pydantic import Field

from hermes_lab.tools.registry import ToolContext, tool
from hermes_lab.tools.scratch import Scratch

_SECONDS = 300.0


@tool(toolset="code_execution")
async def execute_code(
    ctx: ToolContext, code: str, timeout: Annotated[float, Field(gt=0)] = _SECONDS
) -> dict[str, Any]:
    """Run a Python script; print what you want to see. Only files persist between scripts.

    Args:
        timeout: Seconds.
    """
    folder = await ctx.state(Scratch).folder(ctx.sandbox)
    script = f"{folder}/script.py"
    write = f"mkdir -p {folder} && printf %s {shlex.quote(code)} >{script}"
    run = f'PYTHONPATH="$PWD${{PYTHONPATH:+:$PYTHONPATH}}" python3 -u {script}'
    result = await ctx.sandbox.exec(f"{write} && {run}", timeout=timeout)
    answer: dict[str, Any] = {"output": result.output.replace(f"{folder}/", ""), "exit_code": result.exit_code}
    if result.timed_out:
        answer["error"] = f"killed after {timeout:g} seconds"
    return answer
