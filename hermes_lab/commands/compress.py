"""`/compress`."""

from hermes_lab.commands.command import Command, CommandContext, Reply
from hermes_lab.commands.numbers import positive


async def _run(context: CommandContext, tokens: str) -> Reply:
    target = positive(tokens, "TOKENS", 0)
    conversation = context.chat.conversation
    if target and (now := conversation.tokens()) <= target:
        return Reply(f"nothing to compress: the context has about {now:,} tokens, not more than {target:,}")
    if not (done := await conversation.compress(target)):
        return Reply("nothing to compress")
    share = 100 * (1 - done.after / done.before) if done.before else 0.0
    missed = f"; not below {target:,}, as the system prompt and the last turn stay" if 0 < target < done.after else ""
    return Reply(f"compressed from {done.before:,} to about {done.after:,} tokens ({share:.0f} % less){missed}")


COMMAND = Command(
    "compress",
    "Summarise earlier turns, to get below TOKENS if given",
    "Conversation",
    _run,
    hint="[TOKENS]",
    busy="refuse",
)
