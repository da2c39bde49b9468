"""`/help`."""

from hermes_lab.commands.command import Command, CommandContext, Reply
from hermes_lab.commands.registry import usage
from hermes_lab.errors import ConfigError

_WHERE = {"terminal": " (terminal only)", "gateway": " (chat platforms only)", "everywhere": ""}


async def _run(context: CommandContext, name: str) -> Reply:
    registry = context.registry
    if name:
        if not (command := registry.find(name.removeprefix("/"))):
            raise ConfigError(f"no command {name}; /help lists them")
        return Reply(f"{usage(command)}: {command.summary}{_WHERE[command.where]}")
    lines: list[str] = []
    for category, commands in registry.by_category():
        width = max(len(usage(command)) for command in registry.commands)
        lines += ["", category]
        lines += [f"  {usage(c).ljust(width)}  {c.summary}{_WHERE[c.where]}" for c in commands]
    lines += ["", "/SKILL [REQUEST] uses a skill; /skills lists them. //text sends a message that begins with a slash."]
    return Reply("\n".join(lines[1:]))


COMMAND = Command(
    "help",
    "List the commands, or explain one",
    "Information",
    _run,
    hint="[COMMAND]",
    aliases=("?",),
    busy="now",
    arguments=lambda context: [command.name for command in context.registry.commands],
)
