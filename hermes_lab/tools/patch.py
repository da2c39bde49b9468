"""Exact replacement in a file of the workspace."""

from typing import Any

from hermes_lab.errors import ToolError
from hermes_lab.tools.registry import ToolContext, tool


@tool(toolset="file")
async def patch(
    ctx: ToolContext, path: str, old_string: str, new_string: str, replace_all: bool = False
) -> dict[str, Any]:
    """Replace an exact string in a file. It must occur once, unless replace_all.

    Args:
        path: Relative to /app/data.
    """
    if not old_string:
        raise ToolError("old_string is empty; write_file writes a whole file")
    data = await ctx.sandbox.read(path)
    old, new = old_string.encode(errors="replace"), new_string.encode(errors="replace")
    count = data.count(old)
    if count == 0:
        raise ToolError(f"{path}: old_string not found; it must match exactly, white space included")
    if count > 1 and not replace_all:
        raise ToolError(f"{path}: old_string occurs {count} times; add lines around it, or set replace_all")
    await ctx.sandbox.write(path, data.replace(old, new))
    return {"path": path, "replacements": count}
