"""`/title`."""

import anyio.to_thread

from hermes_lab.commands.command import Command, CommandContext, Reply


async def _run(context: CommandContext, name: str) -> Reply:
    session = context.chat.session
    if not name:
        return Reply(session.name or f"no title; the session's id is {session.id}")
    await anyio.to_thread.run_sync(context.chat.store.rename, session.id, name)
    await context.chat.conversation.reload()
    return Reply(f"title: {name}")


COMMAND = Command("title", "Name the session, or show its name", "Session", _run, hint="[NAME]")
