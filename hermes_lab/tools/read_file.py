"""The `read_file` tool: reads lines of a text file in the workspace."""

import difflib
import errno
import os
from typing import Annotated, Any

from pydantic import Field

from hermes_lab.errors import ToolError
from hermes_lab.tools.paths import file_path
from hermes_lab.tools.registry import ToolContext, tool
from hermes_lab.tools.scratch import room, run_script

_LINE_CHARS = 2_000
_BINARY_BYTES = 8_000
_SUGGESTIONS = 3
_FILES = "find . -name .git -prune -o -type f -print0 2>/dev/null | sort -z | head -c {most}; true"


@tool(toolset="file", parallel=True)
async def read_file(
    ctx: ToolContext,
    path: str,
    offset: Annotated[int, Field(ge=1)] = 1,
    limit: Annotated[int, Field(ge=1)] = 500,
) -> dict[str, Any]:
    """Read a text file in the working directory, with line numbers.

    Args:
        path: Relative to the working directory.
        offset: First line.
        limit: Maximum number of lines.
    """
    path = file_path(path)
    try:
        data = await ctx.sandbox.read(path)
    except ToolError as error:
        if str(error) == f"{path}: {os.strerror(errno.ENOENT)}":
            raise ToolError(f"{error}{await _suggestion(ctx, path)}") from None
        raise
    if b"\0" in data[:_BINARY_BYTES]:
        raise ToolError(f"{path}: a binary file ({len(data)} bytes), not text")
    lines = data.decode(errors="replace").split("\n")
    if not lines[-1]:
        lines.pop()
    if offset > max(len(lines), 1):
        raise ToolError(f"{path}: offset {offset} is past the end; the file has {len(lines)} lines")
    shown: list[str] = []
    left = ctx.config.output_chars
    for number, line in enumerate(lines[offset - 1 : offset - 1 + limit], offset):
        text = f"{number}|{_clipped(line.removesuffix(chr(13)))}"
        if shown and len(text) > left:
            return {"content": "\n".join(shown), "total_lines": len(lines), "next_offset": number}
        shown.append(text)
        left -= len(text) + 1
    return {"content": "\n".join(shown), "total_lines": len(lines)}


def _clipped(line: str) -> str:
    cut = len(line) - _LINE_CHARS
    return line if cut <= 0 else f"{line[:_LINE_CHARS]} [... {cut} characters cut]"


async def _suggestion(ctx: ToolContext, path: str) -> str:
    """Suggests files with a similar path or the same name, as the end of an error message."""
    listing = await run_script(ctx.sandbox, _FILES.format(most=room(ctx)))
    paths = [name.removeprefix("./") for name in listing.split("\0")[:-1]]
    near = difflib.get_close_matches(path, paths, n=_SUGGESTIONS, cutoff=0.7)
    name = path.rpartition("/")[2].lower()
    near += [other for other in paths if other.rpartition("/")[2].lower() == name and other not in near]
    return f"; did you mean {', '.join(near[:_SUGGESTIONS])}?" if near else ""
