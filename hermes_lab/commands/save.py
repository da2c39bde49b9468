"""`/save`."""

from pathlib import Path

import anyio.to_thread
import msgspec

from hermes_lab.commands.command import Command, CommandContext, Reply
from hermes_lab.commands.transcript import last_turns
from hermes_lab.errors import ConfigError


async def _run(context: CommandContext, path: str) -> Reply:
    session = context.chat.session
    name = path or f"{session.name or session.id}.md"
    if not name.endswith((".md", ".json")):
        raise ConfigError(f"{name}: give a file that ends in .md, for the conversation, or .json, for all messages")
    text = last_turns(context.chat.conversation, len(session.messages), whole=True)
    data = (
        msgspec.json.encode(session)
        if name.endswith(".json")
        else f"# {session.name or session.id}\n\n{text}\n".encode()
    )
    return Reply(f"saved to {await anyio.to_thread.run_sync(_write, name, data)}")


def _write(name: str, data: bytes) -> Path:
    try:
        file = Path(name).expanduser()
    except RuntimeError:
        raise ConfigError(f"{name}: there is no such person, whose folder ~ would be") from None
    try:
        with file.open("xb") as opened:
            opened.write(data)
    except FileExistsError:
        raise ConfigError(f"{file}: exists already; give another name") from None
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from None
    return file


COMMAND = Command(
    "save",
    "Write the session to a file, .md or .json (all messages)",
    "Session",
    _run,
    hint="[FILE]",
    where="terminal",
    busy="now",
)
