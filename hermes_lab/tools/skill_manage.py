"""The `skill_manage` tool: edits the skill library."""

from typing import Any

from hermes_lab.errors import ToolError
from hermes_lab.tools.registry import ToolContext, tool
from hermes_lab.types import SkillEdit
from hermes_lab.types.skill import Action


@tool(toolset="skills", serves=lambda ctx, _offered: ctx.skills is not None)
def skill_manage(
    ctx: ToolContext,
    action: Action,
    name: str,
    description: str = "",
    content: str = "",
    old_string: str = "",
    new_string: str = "",
    path: str = "",
    absorbed_into: str = "",
) -> dict[str, Any]:
    """Save what was learned as a skill. create: description and content. patch: old_string, new_string.

    Args:
        name: {compact: like-this} {full: Lowercase words with hyphens between them.}
        description: When to use it.
        content: Markdown; with write_file, the file's.
        path: {compact: With write_file, remove_file or patch, a file such as references/x.md.} {full: Only with
            write_file, remove_file or patch: a file beside the skill's own text, in a folder of the skill.}
        absorbed_into: With delete, the skill that holds its content now.
    """
    if ctx.skills is None:
        raise ToolError("there is no skill library here")
    edit = SkillEdit(action, name, description, content, old_string, new_string, path, absorbed_into)
    write = ctx.skills.manage(edit)
    answer = {"action": write.action, "name": write.name} | ({"path": write.path} if write.path else {})
    if write.name != name:
        answer["note"] = f"{write.name!r} says nearly the same, so it was changed instead"
    return answer
