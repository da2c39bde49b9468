"""`/skills`."""

from hermes_lab.commands.command import Command, CommandContext, Reply
from hermes_lab.errors import ConfigError
from hermes_lab.skills import format as skill_format


async def _run(context: CommandContext, arguments: str) -> Reply:
    action, _, rest = arguments.partition(" ")
    library = context.chat.library
    if action in ("", "list"):
        lines = [f"/{name}: {skill.description}" for name, skill in library.listed.items()]
        return Reply("\n".join(lines) or "no skills yet")
    if action == "inspect":
        if not (skill := library.skills.get(rest.strip().removeprefix("/"))):
            raise ConfigError(f"no skill {rest.strip()!r}; /skills lists them")
        return Reply(skill_format.shown(skill))
    raise ConfigError(f"no action {action!r}; use list or inspect NAME, or `hermes-lab skills` in a shell")


def _actions(context: CommandContext) -> list[str]:
    del context
    return ["list", "inspect"]


COMMAND = Command(
    "skills",
    "List the skills, or show one",
    "Tools and skills",
    _run,
    hint="[list|inspect NAME]",
    busy="now",
    arguments=_actions,
)
