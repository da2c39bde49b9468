"""The `write_file` tool: writes a whole file in the workspace."""

from typing import Any

from hermes_lab.tools.paths import file_path
from hermes_lab.tools.registry import ToolContext, tool


@tool(toolset="file")
async def write_file(ctx: ToolContext, path: str, content: str) -> dict[str, Any]:
    """Write a whole file, overwriting an existing one; missing folders are created.

    Args:
        path: Relative to the working directory.
    """
    path = file_path(path)
    data = content.encode(errors="replace")
    await ctx.sandbox.write(path, data)
    return {"path": path, "bytes": len(data)}
