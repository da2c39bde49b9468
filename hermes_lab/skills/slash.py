"""`/skill-name what to do`: a person names the skill, and it stands in the first message."""

import re

from hermes_lab.errors import ToolError
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.session import SkillSession

_SLASH = re.compile(r"/(?P<name>[a-z0-9][a-z0-9-]*)(?:\s+(?P<rest>.*))?", re.DOTALL)


def expand(prompt: str, skills: SkillSession) -> str:
    """The message that `prompt` stands for; itself where it does not begin with the name of a skill, or nearly so."""
    match = _SLASH.fullmatch(prompt.strip())
    if match is None:
        return prompt
    try:
        skill = skills.view(match["name"])
    except ToolError:
        return prompt
    request = (match["rest"] or "").strip() or "Do what the skill is for."
    return f"Follow the skill {skill.name}:\n\n<skill>\n{skill_format.shown(skill)}</skill>\n\n{request}"
