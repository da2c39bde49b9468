"""`/good`."""

from textwrap import shorten

from hermes_lab.chat.turns import FOLDER
from hermes_lab.commands.command import Command, CommandContext, Reply
from hermes_lab.sessions import hermes_home

_CHARS = 60


async def _run(context: CommandContext, arguments: str) -> Reply:
    return await judged(context, arguments, good=True)


async def judged(context: CommandContext, comment: str, *, good: bool) -> Reply:
    """Records the verdict of `/good` or `/bad`."""
    if not context.chat.config.chat.record:
        return Reply("turns are not recorded (chat.record is false), so there is nothing to judge")
    conversation = context.chat.conversation
    if not await conversation.judge(conversation.last_turn, good=good, comment=comment.strip()):
        return Reply("no turn to judge: the agent has not answered yet, or the turn was not recorded")
    conversation = context.chat.conversation
    said = shorten(conversation.said(conversation.turns()[-1]), _CHARS, placeholder=" ...")
    return Reply(f"recorded as {'good' if good else 'bad'} in {hermes_home() / FOLDER}: {said}")


COMMAND = Command("good", "Record that the last turn was good", "Conversation", _run, hint="[COMMENT]", busy="now")
