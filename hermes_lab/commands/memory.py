"""`/memory`."""

from typing import get_args

from hermes_lab.commands.command import Command, CommandContext, Reply
from hermes_lab.errors import ConfigError
from hermes_lab.types.memory import Target

_FILES = {"memory": "MEMORY.md", "user": "USER.md"}


async def _run(context: CommandContext, arguments: str) -> Reply:
    if arguments not in ("", "list"):
        raise ConfigError(f"no action {arguments!r}; use /memory or /memory list")
    notes = context.chat.context.notes
    lines: list[str] = []
    for target in get_args(Target):
        entries = notes.notes.of(target) if notes else ()
        lines += [f"{_FILES[target]}: {len(entries)} {'entry' if len(entries) == 1 else 'entries'}"]
        lines += [f"  - {' '.join(entry.split())}" for entry in entries]
    lines += ["This session's prompt keeps the notes that it began with; changes reach the next session."]
    return Reply("\n".join(lines))


COMMAND = Command("memory", "List the notes", "Tools and skills", _run, hint="[list]", busy="now")
