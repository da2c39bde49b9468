"""`/help`."""

from hermes_lab.commands.command import Command, CommandContext, Reply
from hermes_lab.commands.registry import BUSY, usage
from hermes_lab.errors import ConfigError

_WHERE = {"terminal": " (terminal only)", "gateway": " (chat platforms only)", "everywhere": ""}
_WIDTH = 30
_INDENT = " " * (_WIDTH + 4)


async def _run(context: CommandContext, name: str) -> Reply:
    registry = context.registry
    if name:
        if not (command := registry.find(name.removeprefix("/"))):
            raise ConfigError(f"no command {name}; /help lists them")
        told = [f"{usage(command)}: {_told(command)}", command.details]
        return Reply("\n".join([*filter(None, told), f"While the agent works, it {BUSY[command.busy]}."]))
    lines: list[str] = []
    for category, commands in registry.by_category():
        lines += ["", category]
        for command in commands:
            typed = usage(command)
            fits = len(typed) <= _WIDTH
            lines += (
                [f"  {typed.ljust(_WIDTH)}  {_told(command)}"] if fits else [f"  {typed}", _INDENT + _told(command)]
            )
    lines += ["", "/SKILL [REQUEST] uses a skill; /skills lists them. //text sends a message that begins with a slash."]
    return Reply("\n".join(lines[1:]))


def _told(command: Command) -> str:
    return f"{command.summary}{_WHERE[command.where]}"


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
