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
    """Save what you learned as a skill. create: description and content. patch: old_string, new_string.

    Args:
        name: {compact: like-this} {full: Lowercase words with hyphens between them.}
        description: When to use it.
        content: Markdown; for write_file, the file's content.
        path: {compact: For write_file, remove_file or patch: a file such as references/x.md.} {full: Only for
            write_file, remove_file or patch: a file next to the skill's own text, in one of the skill's folders.}
        absorbed_into: For delete: the skill that has its content now.
    """
    if ctx.skills is None:
        raise ToolError("skills are not available here")
    edit = SkillEdit(action, name, description, content, old_string, new_string, path, absorbed_into)
    write = ctx.skills.manage(edit)
    answer = {"action": write.action, "name": write.name} | ({"path": write.path} if write.path else {})
    if write.name != name:
        answer["note"] = f"{write.name!r} says nearly the same, so it was changed instead"
    return answer
