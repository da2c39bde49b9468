"""`/status`."""

from hermes_lab.commands.command import Command, CommandContext, Reply
from hermes_lab.tools.background import Background


async def _run(context: CommandContext, arguments: str) -> Reply:
    del arguments
    chat, worker = context.chat, context.worker
    seconds = worker.working_seconds
    lines = [
        f"session {chat.session.name or chat.session.id}, {len(chat.conversation.turns())} turns",
        f"model {chat.config.model.name}; tools run in {chat.config.sandbox.backend}",
        "idle" if seconds is None else f"working for {seconds:.0f} s",
    ]
    if worker.queued:
        lines.append(f"{len(worker.queued)} messages wait")
    for process in chat.context.state(Background).processes.values():
        ended = "" if process.exit_code is None else f", exit code {process.exit_code}"
        lines.append(f"background {process.id}: {process.status}{ended}: {process.command}")
    return Reply("\n".join(lines))


COMMAND = Command("status", "Show what the agent does now", "Information", _run, busy="now")
