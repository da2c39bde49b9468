"""The `skills_list` tool: lists all skills."""

from typing import Any

from hermes_lab.errors import ToolError
from hermes_lab.skills import format as skill_format
from hermes_lab.tools.registry import ToolContext, tool
from hermes_lab.tools.skill_view import can_show_skills
from hermes_lab.types import Skill


@tool(toolset="skills", parallel=True, serves=can_show_skills)
async def skills_list(ctx: ToolContext) -> dict[str, Any]:
    """List all skills, also those that are not in the prompt."""
    if ctx.skills is None:
        raise ToolError("there is no skill library here")
    library = ctx.skills.library
    return {"skills": [_row(skill, listed=name in library.listed) for name, skill in library.skills.items()]}


def _row(skill: Skill, *, listed: bool) -> dict[str, str]:
    row = {"name": skill.name, "description": skill.description}
    if listed:
        return row
    return {**row, "state": skill_format.state(skill) if skill_format.for_here(skill) else "for another platform"}
