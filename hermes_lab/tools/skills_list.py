"""The `skills_list` tool: lists all skills."""

from typing import Any

from hermes_lab.errors import ToolError
from hermes_lab.skills.conditions import why_not_listed
from hermes_lab.skills.library import Library
from hermes_lab.tools.registry import ToolContext, tool
from hermes_lab.tools.skill_view import can_show_skills
from hermes_lab.types import Skill


@tool(toolset="skills", parallel=True, serves=can_show_skills)
async def skills_list(ctx: ToolContext) -> dict[str, Any]:
    """List all skills, including those that are not in the prompt."""
    if ctx.skills is None:
        raise ToolError("skills are not available here")
    library = ctx.skills.library
    return {"skills": [_row(library, skill) for skill in library.skills.values()]}


def _row(library: Library, skill: Skill) -> dict[str, str]:
    row = {"name": skill.name, "description": skill.description}
    if skill.name in library.listed:
        return row
    return {**row, "state": why_not_listed(skill, library.place)}
