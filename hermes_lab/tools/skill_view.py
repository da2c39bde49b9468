"""The `skill_view` tool: loads a skill into the conversation."""

import posixpath
from collections.abc import Collection
from typing import Any

from hermes_lab.errors import ToolError
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.compiled.install import install_skill
from hermes_lab.skills.snippets import FOLDER_PLACE
from hermes_lab.tools.registry import ToolContext, tool
from hermes_lab.types import Skill

_ITSELF = "skill.md"
_ADDS_SKILLS = frozenset({"skill_manage", "skill_compile"})


def can_show_skills(ctx: ToolContext, offered: Collection[str]) -> bool:
    """Whether there is a skill to view, or a tool that can add one."""
    return ctx.skills is not None and (bool(ctx.skills.library.skills) or not _ADDS_SKILLS.isdisjoint(offered))


@tool(toolset="skills", serves=can_show_skills)
async def skill_view(ctx: ToolContext, name: str, path: str = "") -> dict[str, Any]:
    """Load a skill.

    Args:
        path: {compact: One of its files, such as references/x.md.} {full: Only for another file of a skill that you
            have loaded: its path, as given in the loaded skill.}
    """
    if ctx.skills is None:
        raise ToolError("skills are not available here")
    skill = ctx.skills.find(name)
    notes = [] if skill.name == name else [f"there is no skill {name!r}; this is the closest one"]
    file = path if path in skill.files else _inside(path, skill, ctx.sandbox.skills_path)
    if file in skill.files:
        note = {"note": notes[0]} if notes else {}
        return {"name": skill.name, "path": file, "content": _text(skill.files[file], file), **note}
    if file:
        has = f"its files are: {', '.join(sorted(skill.files))}" if skill.files else "it has no other files"
        notes.append(f"the skill has no file {path!r}; this is the skill itself, and {has}")
    answer: dict[str, Any] = {"name": skill.name, "content": skill_format.shown(skill)}
    if notes:
        answer["note"] = "; ".join(notes)
    if skill.files:
        folder = await install_skill(skill, ctx.sandbox)
        content = FOLDER_PLACE.sub(lambda _: folder, answer["content"])
        answer |= {"content": content, "folder": folder, "files": sorted(skill.files)}
    ctx.skills.note_load(skill.name)
    return answer


def _inside(path: str, skill: Skill, skills_path: str) -> str:
    """Normalizes the path of a skill's file, which models write in several ways; "" is the skill itself."""
    if not path.strip():
        return ""
    file = posixpath.normpath(path.strip())
    for folder in (f"{skills_path}/{skill.name}", skill.name):
        if file == folder or file.startswith(f"{folder}/"):
            file = posixpath.relpath(file, folder)
    return "" if file == "." or file.casefold() == _ITSELF else file


def _text(data: bytes, path: str) -> str:
    """Decodes a file, truncated to the maximum length of a skill."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise ToolError(f"path: {path!r} is not a text file ({len(data)} bytes)") from None
    cut = len(text) - skill_format.MAX_TEXT
    return text if cut <= 0 else f"{text[: skill_format.MAX_TEXT]}\n[... {cut} characters cut]"
