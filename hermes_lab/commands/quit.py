"""`/quit`."""

from hermes_lab.commands.command import Command, CommandContext, Reply


async def _run(context: CommandContext, arguments: str) -> Reply:
    del context, arguments
    return Reply(quit=True)


COMMAND = Command("quit", "Leave the chat", "Session", _run, aliases=("exit",), where="terminal")
