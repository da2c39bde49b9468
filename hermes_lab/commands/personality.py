"""`/personality`."""

from collections.abc import Sequence
from textwrap import shorten

from hermes_lab.commands.command import Command, CommandContext, Reply

_CHARS = 90


async def _run(context: CommandContext, name: str) -> Reply:
    chat = context.chat
    if name:
        chat.use_personality(name)
        return Reply(f"personality: {name}; it holds from the next session (/new)")
    known = chat.config.known_personalities
    width = max(map(len, known))
    lines = [f"  {each:<{width}}  {shorten(text, _CHARS, placeholder=' ...')}".rstrip() for each, text in known.items()]
    later = ", from the next session (/new)" if chat.persona_changed else ""
    return Reply("\n".join([f"personality: {chat.config.personality}{later}", *lines]))


def _names(context: CommandContext) -> Sequence[str]:
    return list(context.chat.config.known_personalities)


COMMAND = Command(
    "personality",
    "List how the agent can speak, or choose it for the next session",
    "Configuration",
    _run,
    hint="[NAME]",
    arguments=_names,
)
