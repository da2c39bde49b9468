"""The `memory` tool: edits the agent's notes."""

from typing import Any, Literal

from hermes_lab.errors import ToolError
from hermes_lab.memory.notes import NotesEdit
from hermes_lab.tools.registry import ToolContext, tool
from hermes_lab.types.memory import Target


@tool(toolset="memory", serves=lambda ctx, _offered: ctx.notes is not None)
def memory(
    ctx: ToolContext,
    action: Literal["add", "replace", "remove"],
    target: Target,
    content: str = "",
    old_text: str = "",
) -> dict[str, Any]:
    """Keep short facts for later sessions: in memory what you learn of the work, in user what you learn of the person.

    Args:
        content: With add and replace, the entry.
        old_text: With replace and remove, a piece of the one entry that is meant.
    """
    if ctx.notes is None:
        raise ToolError("there are no notes here")
    written = len(ctx.notes.writes)
    ctx.notes.edit(NotesEdit(action, target, content, old_text))
    answer = {"action": action, "target": target, "usage": ctx.notes.usage(target)}
    return answer if len(ctx.notes.writes) > written else answer | {"note": "nothing changed; it stands there already"}
