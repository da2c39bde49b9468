"""`chat`: the agent as a person uses it."""

import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Annotated

import anyio
import anyio.to_thread
import typer

from hermes_lab.agent.delegate import Delegation
from hermes_lab.agent.prompt import system_prompt
from hermes_lab.config import RunConfig, load_config
from hermes_lab.errors import ConfigError, InfraError, ModelError
from hermes_lab.models import open_model
from hermes_lab.protocols import ModelClient, Sandbox
from hermes_lab.sandbox import open_sandbox, probe, unkept_promises
from hermes_lab.sessions import SessionInfo, SessionKey, SessionStore, hermes_home
from hermes_lab.sessions.conversation import Conversation, SessionToolbox
from hermes_lab.sessions.keys import check_name, is_id, new_id
from hermes_lab.sessions.knowledge import HomeKnowledge, Views
from hermes_lab.sessions.reviews import ReviewLog
from hermes_lab.skills.listing import choose
from hermes_lab.tools.registry import Toolbox, ToolContext, check_toolsets
from hermes_lab.types import Message, Review
from runners.commands import options
from runners.narration import narrated
from runners.terminal import Terminal

_KEY = SessionKey("cli", "local")
_DEFAULTS = ("agent.toolsets=[core]",)


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(
        "chat",
        help="Talk to the agent: one PROMPT, or a prompt loop on a terminal. Its tools work in a sandbox; the "
        "session is kept after every turn.\n\n"
        "hermes-lab chat -c model.base_url=http://127.0.0.1:8000/v1 -c model.name=my-model\n\n"
        "hermes-lab chat 'What is the 1000th prime?' -c model.yaml   (the answer alone goes to stdout)\n\n"
        "hermes-lab chat --session taxes -c model.yaml   (begins that session, or goes on with it)\n\n"
        "What the agent learns is kept in the Hermes home ($HERMES_HOME): skills (`hermes-lab skills`), MEMORY.md and "
        "USER.md. `/skill-name what to do` loads a skill.\n\n"
        "In the loop Ctrl-C stops a turn, /compress summarises earlier turns, /exit or Ctrl-D leaves.",
    )(chat)


def chat(
    prompt: Annotated[
        str | None, typer.Argument(help="What to do. Without it: standard input, or a loop.", show_default=False)
    ] = None,
    config: options.Config = None,
    session: Annotated[
        str, typer.Option("--session", help="A session's name or id to go on with, or the name of a new one.")
    ] = "",
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object for every turn.")] = False,
) -> int:
    """`hermes-lab chat`."""
    loaded = load_config([*_DEFAULTS, *(config or [])])
    if loaded.agent.distribution:
        raise ConfigError("agent.distribution: it draws tools for the tasks of a run; for chat give agent.toolsets")
    check_toolsets(loaded.agent.toolsets, loaded.agent.disabled_tools)
    terminal = Terminal(json=json)
    if prompt is None and not terminal.is_there:
        prompt = sys.stdin.buffer.read().decode(errors="replace")
    if prompt is not None and not prompt.strip():
        raise ConfigError("PROMPT: it is empty; say what to do, or give none on a terminal")
    if prompt is not None:
        prompt = prompt.encode(errors="replace").decode()  # an argument in another encoding holds surrogates
    try:
        store = SessionStore()
        kept = _find(store, session) if session else None
        with closing(HomeKnowledge(hermes_home(), loaded)) as knowledge:
            return anyio.run(_chat, _Chat(loaded, knowledge, store, terminal, session, kept), prompt)
    except (InfraError, BaseExceptionGroup) as error:
        cause: BaseException = error
        while isinstance(cause, BaseExceptionGroup):
            cause = cause.exceptions[0]
        if not isinstance(cause, InfraError):
            raise
        return _fail(cause, "what was answered is kept")


@dataclass(frozen=True)
class _Chat:
    """What a chat is held with. `kept`: the session that it goes on with; else one is begun, named `name` if at all."""

    config: RunConfig
    knowledge: HomeKnowledge
    store: SessionStore
    terminal: Terminal
    name: str
    kept: SessionInfo | None


def _find(store: SessionStore, session: str) -> SessionInfo | None:
    """The session to go on with; None where one of that name is to begin."""
    try:
        return store.find(session)
    except ConfigError:
        if is_id(session) or ":" in session:
            raise
        check_name(session)
        return None


async def _chat(chat: _Chat, prompt: str | None) -> int:
    config, store, terminal = chat.config, chat.store, chat.terminal
    await probe(config.sandbox)
    opening = open_model(
        config.model,
        tool_format=chat.kept.tool_format if chat.kept else config.agent.tool_format,
        log=hermes_home() / "server.log",
        concurrency=1,
        say=options.say,
    )
    async with opening as model, open_sandbox(config.sandbox) as sandbox:
        conversation = await _open(chat, model, sandbox)
        begun = conversation.session
        for promise in unkept_promises(config.sandbox):
            terminal.note(f"sandbox.backend {config.sandbox.backend}: {promise}")
        terminal.note("files that the agent makes are lost when this chat ends")
        try:
            with narrated(terminal.note):
                return await _talk(conversation, prompt, terminal)
        finally:
            with anyio.CancelScope(shield=True):
                if chat.kept or conversation.session.length > begun.length:
                    terminal.note(f"go on with: hermes-lab chat --session {begun.name or begun.id}")
                else:
                    await anyio.to_thread.run_sync(store.delete, begun.id)


async def _open(chat: _Chat, model: ModelClient, sandbox: Sandbox) -> Conversation:
    """A stored session with the prompt and the tools that it began with, or a new one."""
    config, agent, terminal = chat.config, chat.config.agent, chat.terminal
    library = await anyio.to_thread.run_sync(chat.knowledge.library)
    listed = choose(library, "", config.skills.max_listed)
    background = await anyio.to_thread.run_sync(chat.knowledge.background)

    def system(toolbox: Toolbox) -> Message:
        text = system_prompt(
            toolbox.schemas,
            agent.tool_format,
            skills=listed,
            more_skills=len(library.listed) - len(listed),
            background=background,
            profile=agent.prompt,
            isolated=config.sandbox.backend != "local",
        )
        return Message("system", text)

    views = partial(chat.knowledge.views, library, model=model.identity.name)
    if chat.kept:
        session = await anyio.to_thread.run_sync(chat.store.load, chat.kept.id)
        context = _context(chat, model, sandbox, views(session=session.id), system)
        toolbox = SessionToolbox((), context, show=terminal.call, frozen=session.tools)
        return Conversation(chat.store, session, model, toolbox, config, chat.knowledge)
    session_id = new_id(datetime.now(UTC))
    context = _context(chat, model, sandbox, views(session=session_id), system)
    toolbox = SessionToolbox(agent.toolsets, context, show=terminal.call, disabled=agent.disabled_tools)
    begin = partial(
        chat.store.create,
        _KEY,
        name=chat.name,
        model=model.identity.adapter or model.identity.name,
        messages=[system(toolbox)],
        tools=toolbox.schemas,
        tool_format=agent.tool_format,
        id=session_id,
    )
    return Conversation(chat.store, await anyio.to_thread.run_sync(begin), model, toolbox, config, chat.knowledge)


def _context(
    chat: _Chat, model: ModelClient, sandbox: Sandbox, views: Views, system: Callable[[Toolbox], Message]
) -> ToolContext:
    return ToolContext(
        sandbox=sandbox,
        skills=views.skills,
        notes=views.notes,
        config=chat.config.sandbox,
        ask=chat.terminal.ask,
        sessions=chat.store,
        delegate=Delegation(model, chat.config, sandbox, views.skills, system),
        heal_attempts=chat.config.skills.heal_attempts,
    )


async def _talk(conversation: Conversation, prompt: str | None, terminal: Terminal) -> int:
    """One turn, or turn after turn; the exit code."""
    if prompt is not None:
        failed = await _do(conversation, prompt, terminal)
        code = 3 if failed else 130 if terminal.interrupted else 0
        await _look_back(conversation, terminal)
        return code
    while not terminal.terminated:
        try:
            line = terminal.read("> ")
        except (EOFError, KeyboardInterrupt):
            options.say("")
            break
        if line.strip() == "/exit":
            break
        if line.strip():
            await _do(conversation, line, terminal)
            await _look_back(conversation, terminal)
    return 130 if terminal.terminated else 0


async def _do(conversation: Conversation, line: str, terminal: Terminal) -> bool:
    """What a line asks for, until Ctrl-C at most. Whether it failed for want of the model, which was then said."""
    before = conversation.session.length
    try:
        with terminal.interruptible():
            if line.strip() == "/compress":
                changed = await conversation.compress()
                terminal.note("earlier turns are now a summary" if changed else "nothing was changed")
            else:
                turn = await conversation.submit(line)
                terminal.turn(conversation.session, turn)
    except ModelError as error:
        _fail(error, _fate(conversation, before))
        return True
    if terminal.interrupted:
        terminal.note(f"interrupted; {_fate(conversation, before)}")
    return False


async def _look_back(conversation: Conversation, terminal: Terminal) -> None:
    """After an answer, a review where one is due; Ctrl-C leaves it out. It never harms what was answered."""
    log = ReviewLog(hermes_home(), conversation.session.id)
    if terminal.interrupted or not conversation.wants_review(log.last()):
        return
    terminal.note("looking back on this session; Ctrl-C leaves it out")
    length = conversation.session.length
    with terminal.interruptible():
        review = await conversation.review()
        await anyio.to_thread.run_sync(log.append, review, length)
        terminal.note(_learnt(review))


def _learnt(review: Review) -> str:
    if review.error:
        return f"the review failed: {review.error.message}"
    saved = [f"{write.action} {write.name}" for write in review.writes]
    saved += [f"{write.action} a note in {write.target}" for write in review.memory]
    return f"learnt: {', '.join(saved)}" if saved else "nothing to save"


def _fate(conversation: Conversation, before: int) -> str:
    """What became of a message whose turn did not end."""
    if conversation.session.length > before:
        return "the turn is kept as far as it came"
    return "the message was not sent; give it again"


def _fail(error: BaseException, fate: str) -> int:
    options.say(f"hermes-lab: error: {' '.join(str(error).split())} ({fate})")
    return 3
