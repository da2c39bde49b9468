"""The `memory` tool: reads and edits the agent's notes."""

from typing import Annotated, Any, Literal

from hermes_lab.errors import ToolError
from hermes_lab.memory.notes import NotesEdit
from hermes_lab.tools.registry import ToolContext, tool
from hermes_lab.tools.schema import InCompact
from hermes_lab.types.memory import Target


@tool(toolset="memory", serves=lambda ctx, _offered: ctx.notes is not None)
def memory(
    ctx: ToolContext,
    action: Annotated[
        Literal["add", "replace", "remove", "list", "get"], InCompact(Literal["add", "replace", "remove"])
    ],
    target: Target,
    content: str = "",
    old_text: str = "",
) -> dict[str, Any]:
    """Save short facts for later sessions: in memory about the work, in user about the user.
    {full: list and get return the current entries.}

    Args:
        content: For add and replace: the entry.
        old_text: {compact: For replace and remove: text that occurs only in that entry.} {full: For replace and
            remove: text that occurs only in that entry; for get: text that occurs in the wanted entries.}
    """
    if ctx.notes is None:
        raise ToolError("notes are not available here")
    if action == "get" and not old_text.strip():
        raise ToolError("old_text: give text that occurs in the wanted entries; list returns all entries")
    if action == "list" or action == "get":
        entries = ctx.notes.read(target, old_text.strip() if action == "get" else "")
        return {"action": action, "target": target, "usage": ctx.notes.usage(target), "entries": entries}
    written = len(ctx.notes.writes)
    ctx.notes.edit(NotesEdit(action, target, content, old_text))
    answer = {"action": action, "target": target, "usage": ctx.notes.usage(target)}
    return answer if len(ctx.notes.writes) > written else answer | {"note": "nothing changed; the entry already exists"}
