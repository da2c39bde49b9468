"""Names the skills that there are."""

from typing import Any

from hermes_lab.errors import ToolError
from hermes_lab.skills import format as skill_format
from hermes_lab.tools.registry import ToolContext, tool


@tool(toolset="skills", parallel=True)
async def skills_list(ctx: ToolContext) -> dict[str, Any]:
    """List all skills, also those that are not in the prompt."""
    if ctx.skills is None:
        raise ToolError("there is no skill library here")
    rows = [
        {"name": skill.name, "description": skill.description}
        | ({} if skill_format.listed(skill) else {"state": skill_format.state(skill)})
        for skill in ctx.skills.library.skills.values()
    ]
    return {"skills": rows}
