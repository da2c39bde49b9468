"""Loads a skill into the conversation."""

from typing import Any

from hermes_lab.errors import ToolError
from hermes_lab.tools.registry import ToolContext, tool


@tool(toolset="skills")
async def skill_view(ctx: ToolContext, name: str) -> dict[str, Any]:
    """Load a skill."""
    if ctx.skills is None:
        raise ToolError("there is no skill library here")
    skill = ctx.skills.view(name)
    return {"name": skill.name, "content": skill.text}
