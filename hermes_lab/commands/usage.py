"""`/usage`."""

from hermes_lab.commands.command import Command, CommandContext, Reply


async def _run(context: CommandContext, arguments: str) -> Reply:
    del arguments
    usage = context.chat.session.usage
    total = usage.prompt_tokens + usage.completion_tokens
    lines = [f"{usage.prompt_tokens:,} prompt + {usage.completion_tokens:,} completion = {total:,} tokens"]
    if cost := context.chat.conversation.cost:
        lines.append(f"cost since this chat began: {cost:.4f} (model.price)")
    if not total:
        lines = ["no tokens reported by the server yet"]
    return Reply("\n".join(lines))


COMMAND = Command("usage", "Show the session's tokens, as the server reported them", "Information", _run, busy="now")
