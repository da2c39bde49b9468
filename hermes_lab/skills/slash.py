"""Expands `/skill-name request` to a message that contains the skill."""

import re
from typing import NamedTuple

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
    """As `expand`, for a message typed by the user, who is told what was loaded."""
    match = _SLASH.fullmatch(prompt.strip())
    if match is None or match["name"] not in skills.library.skills:
        return Expanded(prompt)
    skill = skills.view(match["name"])
    note = f"loaded the skill {skill.name}"
    if skill_format.state(skill) == "archived":
        note += ", which is archived"
    return Expanded(_message(skill, match["rest"]), note)


def _message(skill: Skill, rest: str | None) -> str:
    request = (rest or "").strip() or "Do what the skill is for."
    return f"Follow the skill {skill.name}:\n\n<skill>\n{skill_format.shown(skill)}</skill>\n\n{request}"
