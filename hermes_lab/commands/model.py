"""`/model`."""

from hermes_lab.commands.command import Command, CommandContext, Reply


async def _run(context: CommandContext, name: str) -> Reply:
    chat = context.chat
    if not name:
        return Reply(f"{chat.config.model.name} at {chat.config.model.base_url or chat.config.model.provider}")
    await chat.use_model(name)
    return Reply(f"model: {name}, from the next message on")


COMMAND = Command("model", "Show the model, or continue with another one", "Configuration", _run, hint="[NAME]")
