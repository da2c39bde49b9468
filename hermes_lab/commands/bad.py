"""`/bad`."""

from hermes_lab.commands.command import Command, CommandContext, Reply
from hermes_lab.commands.good import judged


async def _run(context: CommandContext, arguments: str) -> Reply:
    return await judged(context, arguments, good=False)


COMMAND = Command("bad", "Record that the last turn was bad", "Conversation", _run, hint="[COMMENT]", busy="now")
