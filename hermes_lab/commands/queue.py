"""`/queue`."""

from hermes_lab.commands.command import Command, CommandContext, Reply


async def _run(context: CommandContext, message: str) -> Reply:
    worker = context.worker
    if not message:
        waiting = [f"{number}. {' '.join(each.split())}" for number, each in enumerate(worker.queued, 1)]
        return Reply("\n".join(waiting) or "no messages wait")
    if worker.working_seconds is None:
        return Reply(send=message)
    worker.queue(message)
    return Reply(f"queued; {len(worker.queued)} waiting")


COMMAND = Command(
    "queue",
    "Send a message after the current turn, or list those that wait",
    "Conversation",
    _run,
    "[MESSAGE]",
    busy="now",
)
