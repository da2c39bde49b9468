"""`chat`: interactive sessions with the agent."""

import sys
from contextlib import closing
from pathlib import Path
from typing import Annotated

import anyio
import typer

from hermes_lab.chat.home_knowledge import HomeKnowledge
from hermes_lab.config.home_file import FILE, resolve_home
from hermes_lab.config.masking import as_written
from hermes_lab.config.schema import RunConfig
from hermes_lab.errors import ConfigError, InfraError, ModelError
from hermes_lab.harness.check import check_own_loop
from hermes_lab.runners import output
from hermes_lab.runners.chat.start import Asked, run_chat
from hermes_lab.runners.commands import options
from hermes_lab.sessions import SessionInfo, SessionStore, hermes_home
from hermes_lab.sessions.keys import check_name, is_id
from hermes_lab.tools.toolbox import check_toolsets


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(
        "chat",
        help="Chat with the agent: answer one PROMPT, or start an interactive loop. Tools run in a sandbox; the "
        "session is saved after every turn.\n\n"
        "hermes-lab chat -c model.base_url=http://127.0.0.1:8000/v1 -c model.name=my-model\n\n"
        "hermes-lab chat 'What is the 1000th prime?' -c model.yaml   (only the answer goes to stdout)\n\n"
        "hermes-lab chat --session taxes -c model.yaml   (start or resume that session)\n\n"
        "What the agent learns is saved in the Hermes home ($HERMES_HOME): skills (`hermes-lab skills`), MEMORY.md and "
        "USER.md. `/skill-name PROMPT` loads a skill. Its config.yaml (`hermes-lab config init`) is read before the "
        "-c options.\n\n"
        "On a terminal, /help lists the commands, Tab completes them, Ctrl-C stops a turn, and Ctrl-D quits. You "
        "can type while the agent works: messages are sent after the turn.",
    )(chat)


def chat(
    prompt: Annotated[
        str | None,
        typer.Argument(help="What to do. Without it: standard input, or an interactive loop.", show_default=False),
    ] = None,
    config: options.Config = None,
    session: Annotated[
        str, typer.Option("--session", help="Name or id of a session to resume, or the name of a new one.")
    ] = "",
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object per turn.")] = False,
) -> int:
    """`hermes-lab chat`."""
    found = resolve_home(hermes_home() / FILE, config or [])
    loaded = found.config
    try:
        check_own_loop(loaded, "chat")
        check_toolsets(loaded.agent.toolsets, loaded.agent.disabled_tools)
    except ConfigError as error:
        raise ConfigError(as_written(str(error), found.references)) from None
    if loaded.agent.distribution:
        raise ConfigError("agent.distribution: only for runs, which draw tools per task; set agent.toolsets for chat")
    interactive = prompt is None and sys.stdin.isatty()
    if prompt is None and not interactive:
        prompt = sys.stdin.buffer.read().decode(errors="replace")
    if prompt is not None and not prompt.strip():
        raise ConfigError("PROMPT: is empty; give a prompt, or leave it out to chat on a terminal")
    if prompt is not None:
        prompt = prompt.encode(errors="replace").decode()  # an argument in another encoding contains surrogates
    asked = Asked(prompt, session, tuple(config or ()), json)
    try:
        store = SessionStore()
        stored = _find(store, session) if session else None
        working = Path(loaded.sandbox.workspace).expanduser() if loaded.chat.context_files else None
        with closing(HomeKnowledge(hermes_home(), loaded, working=working)) as knowledge:
            return anyio.run(run_chat, loaded, knowledge, store, stored, asked)
    except (InfraError, BaseExceptionGroup) as error:
        cause: BaseException = error
        while isinstance(cause, BaseExceptionGroup):
            cause = cause.exceptions[0]
        if not isinstance(cause, InfraError):
            raise cause from None
        output.say(f"hermes-lab: error: {' '.join(str(cause).split())}{_hint(cause, loaded)}")
        return 3


def _hint(error: InfraError, config: RunConfig) -> str:
    """Advice if the model was unreachable at an address that the user did not set."""
    model = config.model
    at_default = model.provider == "openai" and "base_url" not in model.model_fields_set
    fix = " (the default; set another one with -c, or in the config.yaml that `hermes-lab config init` writes)"
    return fix if at_default and isinstance(error, ModelError) else ""


def _find(store: SessionStore, session: str) -> SessionInfo | None:
    """The session to resume; None if `session` is the name of a new one."""
    try:
        return store.find(session)
    except ConfigError:
        if is_id(session) or ":" in session:
            raise
        check_name(session)
        return None
