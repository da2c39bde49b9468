"""`/skill-name what to do`: the skill is named in the message, and stands in it."""

import re
from typing import NamedTuple

from hermes_lab.errors import ToolError
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.session import SkillSession
from hermes_lab.types import Skill

_SLASH = re.compile(r"/(?P<name>[\w-]+)(?:\s+(?P<rest>.*))?", re.DOTALL)


class Expanded(NamedTuple):
    """The message that was meant, and the `note` that tells whoever typed it what became of the name."""

    message: str
    note: str = ""


def expand(prompt: str, skills: SkillSession) -> str:
    """The message that a task's prompt stands for: itself, unless it begins with the exact name of a skill."""
    match = _SLASH.fullmatch(prompt.strip())
    if match is None or match["name"] not in skills.library.skills:
        return prompt
    return _message(skills.view(match["name"]), match["rest"])


def expand_typed(prompt: str, skills: SkillSession) -> Expanded:
    """The same for what a person typed, who may misspell the name of a skill that is not put away."""
    match = _SLASH.fullmatch(prompt.strip())
    if match is None:
        return Expanded(prompt)
    name = match["name"]
    if name not in skills.library.skills:
        name = _nearest(name, skills)
    if not name:
        return Expanded(prompt, f"no skill {match['name']!r}; sent as it stands")
    skill = skills.view(name)
    note = f"loaded the skill {name}"
    if name != match["name"]:
        note += ", nearly what you wrote"
    if skill_format.state(skill) == "archived":
        note += ", which is archived"
    return Expanded(_message(skill, match["rest"]), note)


def _nearest(name: str, skills: SkillSession) -> str:
    try:
        skill = skills.find(name)
    except ToolError:
        return ""
    return skill.name if skill_format.state(skill) != "archived" else ""


def _message(skill: Skill, rest: str | None) -> str:
    request = (rest or "").strip() or "Do what the skill is for."
    return f"Follow the skill {skill.name}:\n\n<skill>\n{skill_format.shown(skill)}</skill>\n\n{request}"
