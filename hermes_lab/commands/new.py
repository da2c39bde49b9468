"""`/new`."""

from hermes_lab.commands.command import Command, CommandContext, Reply


async def _run(context: CommandContext, name: str) -> Reply:
    await context.chat.begin(name)
    return Reply(f"new session {context.chat.session.name or context.chat.session.id}")


COMMAND = Command("new", "Start a new session", "Session", _run, hint="[NAME]", aliases=("reset",))
