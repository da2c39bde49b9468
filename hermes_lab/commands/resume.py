"""`/resume`."""

from functools import partial

import anyio.to_thread

from hermes_lab.commands.command import Command, CommandContext, Reply
from hermes_lab.commands.transcript import last_turns
from hermes_lab.errors import ConfigError
from hermes_lab.sessions import SessionInfo

_LISTED = 10


async def _run(context: CommandContext, name: str) -> Reply:
    chat = context.chat
    if not name:
        latest = partial(chat.store.latest, _LISTED, key=chat.held_at)
        return Reply("\n".join(map(_line, await anyio.to_thread.run_sync(latest))))
    info = await anyio.to_thread.run_sync(partial(chat.store.find, name, key=chat.held_at))
    if info.id == chat.session.id:
        raise ConfigError(f"{name} is the current session")
    await chat.resume(info)
    return Reply(f"session {info.name or info.id}, {info.length} messages\n{last_turns(chat.conversation)}".rstrip())


def _line(info: SessionInfo) -> str:
    name = f"  {info.name}" if info.name else ""
    return f"{info.id}{name}  {info.updated[:16].replace('T', ' ')}  {' '.join(info.opening.split())}"


def _names(context: CommandContext) -> list[str]:
    chat = context.chat
    return [info.name or info.id for info in chat.store.latest(50, key=chat.held_at)]


COMMAND = Command(
    "resume",
    "Continue a stored session, or list the latest",
    "Session",
    _run,
    hint="[NAME, ID OR KEY]",
    arguments=_names,
)
