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
    """Keep short facts for later sessions: in memory what you learn of the work, in user what you learn of the person.
    {full: List and get read them as they are now.}

    Args:
        content: With add and replace, the entry.
        old_text: {compact: With replace and remove, a piece of the one entry that is meant.} {full: With replace and
            remove, a piece of the one entry that is meant; with get, of those wanted.}
    """
    if ctx.notes is None:
        raise ToolError("there are no notes here")
    if action == "get" and not old_text.strip():
        raise ToolError("old_text: give a piece of the entries to get; list gives all")
    if action == "list" or action == "get":
        entries = ctx.notes.read(target, old_text.strip() if action == "get" else "")
        return {"action": action, "target": target, "usage": ctx.notes.usage(target), "entries": entries}
    written = len(ctx.notes.writes)
    ctx.notes.edit(NotesEdit(action, target, content, old_text))
    answer = {"action": action, "target": target, "usage": ctx.notes.usage(target)}
    return answer if len(ctx.notes.writes) > written else answer | {"note": "nothing changed; it stands there already"}
