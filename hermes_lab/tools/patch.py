"""The `patch` tool: replaces a passage in a file of the workspace."""

from typing import Any

import anyio.to_thread

from hermes_lab.errors import ToolError
from hermes_lab.text.clip import clip
from hermes_lab.text.diff import small_diff
from hermes_lab.text.replace import Replaced, replace
from hermes_lab.tools.paths import file_path
from hermes_lab.tools.registry import ToolContext, tool

_LONG = 50_000
_DIFF_CHARS = 4_000


@tool(toolset="file")
async def patch(
    ctx: ToolContext, path: str, old_string: str, new_string: str, replace_all: bool = False
) -> dict[str, Any]:
    """Replace a passage of a file. Quote it exactly, with enough lines to be unique; small differences in whitespace,
    quotes or escapes are tolerated.

    Args:
        path: Relative to the working directory.
        replace_all: Replace all occurrences.
    """
    if not old_string:
        raise ToolError("old_string is empty; quote the passage to replace")
    if old_string == new_string:
        raise ToolError("old_string and new_string are the same")
    path = file_path(path)
    # Bytes that are not UTF-8 are kept as surrogates; surrogates in the model's own text are replaced.
    before = (await ctx.sandbox.read(path)).decode(errors="surrogateescape")
    old, new = (text.encode(errors="replace").decode() for text in (old_string, new_string))
    try:
        replaced = await _replace(before, old, new, replace_all)
    except ToolError as error:
        raise ToolError(f"{path}: {error}") from None
    await ctx.sandbox.write(path, replaced.text.encode(errors="surrogateescape"))
    diff = clip(small_diff(before, replaced.text), _DIFF_CHARS).text
    fuzzy = {"fuzzy": replaced.reading} if replaced.reading else {}
    return {"path": path, "replacements": replaced.replacements, "diff": diff} | fuzzy


async def _replace(text: str, old: str, new: str, everywhere: bool) -> Replaced:
    if len(text) < _LONG and old in text:  # a loose reading may take long, even of a small file
        return replace(text, old, new, everywhere=everywhere)
    return await anyio.to_thread.run_sync(lambda: replace(text, old, new, everywhere=everywhere))
