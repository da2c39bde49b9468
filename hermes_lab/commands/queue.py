"""`/queue`."""

from hermes_lab.commands.command import Command, CommandContext, Reply
from hermes_lab.commands.registry import BUSY, Unknown
from hermes_lab.errors import ConfigError


async def _run(context: CommandContext, line: str) -> Reply:
    worker = context.worker
    if not line:
        waiting = [f"{number}. {' '.join(each.split())}" for number, each in enumerate(worker.queued, 1)]
        return Reply("\n".join(waiting) or "no messages wait")
    found = context.registry.read(line, context.chat.library.skills)
    if isinstance(found, Unknown):
        raise ConfigError(found.told)
    if (command := found.command) and command.busy != "after":
        raise ConfigError(f"/{command.name} cannot be queued: while the agent works, it {BUSY[command.busy]}")
    worker.queue(found)
    return Reply() if worker.working_seconds is None else Reply(f"queued; {len(worker.queued)} waiting")


COMMAND = Command(
    "queue",
    "Send a message after the current turn, or list those that wait",
    "Conversation",
    _run,
    "[MESSAGE]",
    busy="now",
    details="The message is read as if it were typed: a command that waits for the end of the turn may stand in it, an "
    "unknown one is refused, and //text is text.",
)
