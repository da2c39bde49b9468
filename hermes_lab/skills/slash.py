"""Expands `/skill-name arguments` to a message that contains the skill.

Arguments take their places in the skill, and its commands run in the sandbox (`hermes_lab.skills.snippets`).
"""

import re
from typing import NamedTuple

from hermes_lab.config.schema import RunConfig
from hermes_lab.protocols import Sandbox
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.compiled.install import install_skill
from hermes_lab.skills.session import SkillSession
from hermes_lab.skills.snippets import arguments_of, expanded
from hermes_lab.types import Skill

_SLASH = re.compile(r"/(?P<name>[\w-]+)(?:\s+(?P<rest>.*))?", re.DOTALL)


class Expanded(NamedTuple):
    """The expanded message, and a `note` for the user on how the name was resolved."""

    message: str
    note: str = ""


def snippet_sandbox(sandbox: Sandbox, config: RunConfig) -> Sandbox | None:
    """Returns the sandbox if a skill's commands may run in it by `skills.inline_shell`; otherwise None."""
    mode, isolated = config.skills.inline_shell, config.sandbox.isolates
    return sandbox if mode == "always" or (mode == "isolated" and isolated) else None


async def expand(prompt: str, skills: SkillSession, sandbox: Sandbox, config: RunConfig) -> str:
    """Expands a task's prompt if it starts with `/` and the exact name of a skill."""
    match = _SLASH.fullmatch(prompt.strip())
    if match is None or match["name"] not in skills.library.skills:
        return prompt
    return (await _expanded(skills.view(match["name"]), match["rest"], sandbox, config)).message


async def expand_typed(prompt: str, skills: SkillSession, sandbox: Sandbox, config: RunConfig) -> Expanded:
    """As `expand`, for a message typed by the user, who is told what was loaded. Several skills may stand before it:
    `/one /other what to do`."""
    match = _SLASH.fullmatch(prompt.strip())
    if match is None or match["name"] not in skills.library.skills:
        return Expanded(prompt)
    skill = skills.view(match["name"])
    note = f"loaded the skill {skill.name}"
    if skill_format.state(skill) == "archived":
        note += ", which is archived"
    rest = await expand_typed(match["rest"] or "", skills, sandbox, config)
    message, more = await _expanded(skill, rest.message, sandbox, config)
    return Expanded(message, "; ".join(filter(None, (note, more, rest.note))))


async def _expanded(skill: Skill, rest: str | None, sandbox: Sandbox, config: RunConfig) -> Expanded:
    arguments = arguments_of(skill, (rest or "").strip())
    folder = await install_skill(skill, sandbox) if skill.files else f"{sandbox.skills_path}/{skill.name}"
    result = await expanded(skill, arguments, folder, snippet_sandbox(sandbox, config))
    request = arguments.text if not result.filled else ""
    files = f"The files of the skill are in {folder}: {', '.join(sorted(skill.files))}\n\n" if skill.files else ""
    last = request or "Do what the skill describes."
    return Expanded(f"Follow the skill {skill.name}:\n\n<skill>\n{result.text}</skill>\n\n{files}{last}", result.note)
