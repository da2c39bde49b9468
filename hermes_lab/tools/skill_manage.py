"""Writes to the skill library."""

from typing import Any, Literal

from hermes_lab.errors import ToolError
from hermes_lab.tools.registry import ToolContext, tool


@tool(toolset="skills")
async def skill_manage(
    ctx: ToolContext,
    action: Literal["create", "patch"],
    name: str,
    description: str = "",
    content: str = "",
    old_string: str = "",
    new_string: str = "",
) -> dict[str, Any]:
    """Save what was learned as a skill. create: description and content. patch: old_string, new_string.

    Args:
        name: like-this
        description: When to use it.
        content: Markdown.
    """
    if ctx.skills is None:
        raise ToolError("there is no skill library here")
    if action == "create":
        write = ctx.skills.create(name, description, content)
    else:
        write = ctx.skills.patch(name, old_string, new_string)
    return {"action": write.action, "name": write.name}
