"""`/stop`."""

from hermes_lab.commands.command import Command, CommandContext, Reply
from hermes_lab.tools.background import Background


async def _run(context: CommandContext, arguments: str) -> Reply:
    del arguments
    if context.worker.working_seconds is not None:
        context.worker.stop()
        return Reply()  # the interrupted turn is reported
    tools = context.chat.context
    background = tools.state(Background)
    await background.look(tools, background.processes.values())
    running = [process for process in background.processes.values() if process.status == "running"]
    for process in running:
        await background.kill(tools, process)
    killed = ", ".join(process.id for process in running)
    return Reply(f"killed in the background: {killed}" if running else "nothing to stop")


COMMAND = Command("stop", "Stop the turn; if idle, the background commands", "Conversation", _run, busy="now")
