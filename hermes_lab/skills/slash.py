"""Expands `/skill-name request` to a message that contains the skill."""

import re
from typing import NamedTuple

from hermes_lab.errors import ToolError
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.session import SkillSession
from hermes_lab.types import Skill

_SLASH = re.compile(r"/(?P<name>[\w-]+)(?:\s+(?P<rest>.*))?", re.DOTALL)


class Expanded(NamedTuple):
    """The expanded message, and a `note` for the user on how the name was resolved."""

    message: str
    note: str = ""


def expand(prompt: str, skills: SkillSession) -> str:
    """Expands a task's prompt if it starts with `/` and the exact name of a skill."""
    match = _SLASH.fullmatch(prompt.strip())
    if match is None or match["name"] not in skills.library.skills:
        return prompt
    return _message(skills.view(match["name"]), match["rest"])


def expand_typed(prompt: str, skills: SkillSession) -> Expanded:
    """Expands a message typed by the user, who may misspell the name of a skill that is not archived."""
    match = _SLASH.fullmatch(prompt.strip())
    if match is None:
        return Expanded(prompt)
    name = match["name"]
    if name not in skills.library.skills:
        name = _close_match(name, skills)
    if not name:
        return Expanded(prompt, f"no skill {match['name']!r}; sent unchanged")
    skill = skills.view(name)
    note = f"loaded the skill {name}"
    if name != match["name"]:
        note += ", the closest match"
    if skill_format.state(skill) == "archived":
        note += ", which is archived"
    return Expanded(_message(skill, match["rest"]), note)


def _close_match(name: str, skills: SkillSession) -> str:
    try:
        skill = skills.find(name)
    except ToolError:
        return ""
    return skill.name if skill_format.state(skill) != "archived" else ""


def _message(skill: Skill, rest: str | None) -> str:
    request = (rest or "").strip() or "Do what the skill is for."
    return f"Follow the skill {skill.name}:\n\n<skill>\n{skill_format.shown(skill)}</skill>\n\n{request}"
