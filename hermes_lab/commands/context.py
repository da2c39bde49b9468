"""`/context`."""

from hermes_lab.commands.command import Command, CommandContext, Reply


async def _run(context: CommandContext, arguments: str) -> Reply:
    del arguments
    chat = context.chat
    tokens, limit = chat.conversation.tokens(), chat.config.agent.context_tokens
    of = f" of {limit:,} ({100 * tokens / limit:.0f} %)" if limit else ""
    turns, compressions = len(chat.conversation.turns()), len(chat.session.compressions)
    lines = [f"about {tokens:,} tokens{of} in the context; {turns} turns, {compressions} compressions"]
    if limit and chat.config.agent.compress_at:
        lines.append(f"earlier turns are summarised at {int(limit * chat.config.agent.compress_at):,} tokens")
    elif not limit:
        lines.append("agent.context_tokens is not set: compresses only when the model refuses a prompt")
    return Reply("\n".join(lines))


COMMAND = Command("context", "Show how large the context is", "Information", _run, busy="now")
