"""`/tools`."""

from hermes_lab.commands.command import Command, CommandContext, Reply
from hermes_lab.errors import ConfigError
from hermes_lab.tools.registry import known_tools, unavailable_tools


async def _run(context: CommandContext, arguments: str) -> Reply:
    if arguments not in ("", "list"):
        raise ConfigError(f"no action {arguments!r}; use /tools or /tools list")
    by_toolset: dict[str, list[str]] = {}
    for schema in context.chat.session.tools:
        name = schema["function"]["name"]
        by_toolset.setdefault(_toolset(name, context), []).append(name)
    lines = [f"{toolset}: {', '.join(names)}" for toolset, names in sorted(by_toolset.items())]
    offered = {name for names in by_toolset.values() for name in names}
    lines += [f"unavailable: {name}: {why}" for name, why in unavailable_tools().items() if name in offered]
    count = len(offered)
    return Reply("\n".join([f"{count} tools of {len(by_toolset)} toolsets in this session", *lines]))


def _toolset(name: str, context: CommandContext) -> str:
    if known := known_tools().get(name):
        return known.toolset
    served = context.chat.conversation.toolbox.served.get(name)
    return served.toolset if served else "skills"


COMMAND = Command("tools", "List the session's tools", "Tools and skills", _run, hint="[list]", busy="now")
