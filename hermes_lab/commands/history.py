"""`/history`."""

from hermes_lab.commands.command import Command, CommandContext, Reply
from hermes_lab.commands.numbers import positive
from hermes_lab.commands.transcript import last_turns


async def _run(context: CommandContext, turns: str) -> Reply:
    return Reply(last_turns(context.chat.conversation, positive(turns, "TURNS", 10)) or "no turns yet")


COMMAND = Command("history", "Show the last turns", "Conversation", _run, hint="[TURNS]", busy="now")
