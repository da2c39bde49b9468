"""`/retry`."""

from hermes_lab.commands.command import Command, CommandContext, Reply


async def _run(context: CommandContext, arguments: str) -> Reply:
    del arguments
    if not (said := await context.chat.conversation.retry()):
        return Reply("nothing to retry")
    return Reply("removed the last turn; asking again", send=said)


COMMAND = Command(
    "retry",
    "Remove the last turn and send its message again",
    "Conversation",
    _run,
    busy="refuse",
    details="The record keeps both answers, as a preference for the new one unless you judge them with /good and /bad.",
)
