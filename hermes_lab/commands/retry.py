"""`/retry`."""

from hermes_lab.commands.command import Command, CommandContext, Reply


async def _run(context: CommandContext, arguments: str) -> Reply:
    del arguments
    if not (removed := await context.chat.conversation.undo()):
        return Reply("nothing to retry")
    return Reply("removed the last turn; asking again", send=removed[0])


COMMAND = Command("retry", "Remove the last turn and send its message again", "Conversation", _run, busy="refuse")
