"""`/retry`."""

from textwrap import shorten

from hermes_lab.commands.command import Command, CommandContext, Reply

_CHARS = 60


async def _run(context: CommandContext, arguments: str) -> Reply:
    del arguments
    if not (said := await context.chat.conversation.retry()):
        return Reply("nothing to retry")
    told = f"asking again: {shorten(said.text, _CHARS, placeholder=' ...')}"
    return Reply(told, send=said.text, literal=said.literal)


COMMAND = Command(
    "retry",
    "Remove the last turn and send its message again",
    "Conversation",
    _run,
    busy="refuse",
    details="The record keeps both answers, as a preference for the new one unless you judge them with /good and /bad.",
)
