"""Starts a chat: with one prompt, or interactively."""

import shlex
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import anyio.to_thread

from hermes_lab.chat.home_knowledge import HomeKnowledge
from hermes_lab.chat.live import LiveChat, open_chat
from hermes_lab.commands.talk import Display, Talk
from hermes_lab.commands.transcript import last_turns
from hermes_lab.config.home import HomeConfig
from hermes_lab.config.schema import RunConfig
from hermes_lab.cron.proposals import JobProposals
from hermes_lab.models import REMOTE
from hermes_lab.models.refusals import RETRIES
from hermes_lab.runners.engine.log_relay import COMPILER, relay_logs
from hermes_lab.runners.terminal import Terminal
from hermes_lab.sandbox import missing_guarantees
from hermes_lab.sessions import SessionInfo, SessionKey, SessionStore, hermes_home

_TOLD = (COMPILER, RETRIES.name)
_KEY = SessionKey("cli", "local")


class Asked(NamedTuple):
    """What the command line asks for. `prompt` None: an interactive chat. `session`: the name of a new session, or what
    names the one to resume. `sources` are the `-c` options."""

    prompt: str | None
    session: str
    sources: tuple[str, ...]
    json: bool


async def run_chat(
    config: HomeConfig, knowledge: HomeKnowledge, store: SessionStore, stored: SessionInfo | None, asked: Asked
) -> int:
    """Chats until the user leaves, or until the prompt is answered; returns the exit code."""
    jobs = JobProposals(hermes_home(), config.user.timezone, _KEY)
    if asked.prompt is not None:
        terminal = Terminal(json=asked.json)
        async with open_chat(config, knowledge, store, terminal, _KEY, asked.sources, jobs=jobs) as chat:
            await _enter(chat, stored, asked, terminal)
            talk = Talk(chat, terminal)
            with relay_logs(terminal.note, loggers=_TOLD), terminal.interrupts(talk.interrupt):
                code = await talk.one(asked.prompt)
            _leave(chat, asked, terminal)
    else:
        # Imported here, so that a single prompt does not load what draws a screen.
        from hermes_lab.chat.notices import Notices
        from hermes_lab.runners.chat.interactive import interact
        from hermes_lab.runners.chat.screen import Screen

        screen = Screen(hermes_home() / "chat_history", config.display, json=asked.json)
        if note := await anyio.to_thread.run_sync(knowledge.sync_bundled):
            screen.note(note)
        async with open_chat(config, knowledge, store, screen, _KEY, asked.sources, jobs=jobs) as chat:
            await _enter(chat, stored, asked, screen)
            model = chat.config.model
            at = f" at {model.base_url}" if model.provider in REMOTE else ""
            screen.note(f"{model.name}{at}; /help lists the commands")
            if shown := last_turns(chat.conversation):
                screen.note(shown)
            with relay_logs(screen.note, loggers=_TOLD):
                code = await interact(chat, screen, Notices(config.display.background_process_notifications))
            _leave(chat, asked, screen)
        terminal = Terminal(json=asked.json)
    # At the end, because this takes seconds with a large library.
    if note := await anyio.to_thread.run_sync(knowledge.tend):
        terminal.note(note)
    return code


async def _enter(chat: LiveChat, stored: SessionInfo | None, asked: Asked, display: Display) -> None:
    with _connection_note(chat.config):
        await (chat.resume(stored) if stored else chat.begin(asked.session))
    for promise in missing_guarantees(chat.config.sandbox):
        display.note(f"sandbox.backend {chat.config.sandbox.backend}: {promise}")
    kept = f"stay in {chat.workspace}" if chat.workspace else "are deleted when this chat ends"
    display.note(f"files that the agent creates {kept}")


def _leave(chat: LiveChat, asked: Asked, display: Display) -> None:
    session = chat.session
    if chat.kept:
        options = "".join(f" -c {shlex.quote(source)}" for source in asked.sources)
        display.note(f"resume with: hermes-lab chat --session {shlex.quote(session.name or session.id)}{options}")


def _connection_note(config: RunConfig) -> AbstractContextManager[None]:
    """Tells the user if an endpoint is slow to answer; a local server reports its own progress."""
    if config.model.provider not in REMOTE:
        return nullcontext()
    return Terminal(json=False).note_if_slow(f"no answer from {config.model.base_url} yet; still trying")
