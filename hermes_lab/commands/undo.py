"""`/undo`."""

from hermes_lab.commands.command import Command, CommandContext, Reply
from hermes_lab.commands.numbers import positive
from hermes_lab.text.clip import clip


async def _run(context: CommandContext, turns: str) -> Reply:
    removed = await context.chat.conversation.undo(positive(turns, "TURNS", 1))
    if not removed:
        return Reply("nothing to undo")
    what = "1 turn" if len(removed) == 1 else f"{len(removed)} turns"
    return Reply(f"removed {what}, from: {clip(removed[0], 200).text}\nFiles that tools have changed stay as they are.")


COMMAND = Command("undo", "Remove the last turns from the session", "Conversation", _run, hint="[TURNS]", busy="refuse")
