"""Text files of the workspace, by line."""

from typing import Annotated, Any

from pydantic import Field

from hermes_lab.sandbox.output import clip
from hermes_lab.tools.registry import ToolContext, tool


@tool(toolset="file")
async def read_file(
    ctx: ToolContext,
    path: str,
    offset: Annotated[int, Field(ge=1)] = 1,
    limit: Annotated[int, Field(ge=1)] = 500,
) -> dict[str, Any]:
    """Read a text file of the workspace, with line numbers.

    Args:
        path: Relative to /app/data.
        offset: First line.
        limit: Most lines.
    """
    lines = (await ctx.sandbox.read(path)).decode(errors="replace").splitlines()
    shown = lines[offset - 1 : offset - 1 + limit]
    text = "\n".join(f"{number}|{line}" for number, line in enumerate(shown, offset))
    return {"content": clip(text, ctx.config.output_chars).text, "total_lines": len(lines)}
