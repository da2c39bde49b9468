"""Loads a skill into the conversation."""

from typing import Any

from hermes_lab.errors import ToolError
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.lay_out import lay_out
from hermes_lab.tools.registry import ToolContext, tool


@tool(toolset="skills")
async def skill_view(ctx: ToolContext, name: str, path: str = "") -> dict[str, Any]:
    """Load a skill.

    Args:
        path: One of its files, such as references/x.md.
    """
    if ctx.skills is None:
        raise ToolError("there is no skill library here")
    skill = ctx.skills.view(name)
    note = {} if skill.name == name else {"note": f"there is no skill {name!r}; this is the nearest"}
    if not path:
        answer = {"name": skill.name, "content": skill_format.shown(skill), **note}
        if not skill.files:
            return answer
        return {**answer, "folder": await lay_out(skill, ctx.sandbox), "files": sorted(skill.files)}
    if path not in skill.files:
        raise ToolError(f"path: {skill.name!r} has no file {path!r}; it has: {', '.join(skill.files) or 'none'}")
    return {"name": skill.name, "path": path, "content": _text(skill.files[path], path), **note}


def _text(data: bytes, path: str) -> str:
    """At most as much as a skill itself may be."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise ToolError(f"path: {path!r} is no text; it has {len(data)} bytes") from None
    cut = len(text) - skill_format.MAX_TEXT
    return text if cut <= 0 else f"{text[: skill_format.MAX_TEXT]}\n[... {cut} characters cut]"
