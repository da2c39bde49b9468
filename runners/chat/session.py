"""A chat, from the model and sandbox that it opens to the session that it leaves."""

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
    nullcontext,
)
from datetime import UTC, datetime
from functools import partial

import anyio
import anyio.to_thread

from hermes_lab.agent.delegate import Delegation
from hermes_lab.agent.prompt import system_prompt
from hermes_lab.config.schema import RunConfig
from hermes_lab.models import REMOTE, open_auxiliary, open_model
from hermes_lab.protocols import ModelClient, Sandbox
from hermes_lab.runners import output
from hermes_lab.runners.chat.repl import Repl
from hermes_lab.runners.engine.log_relay import relay_logs
from hermes_lab.runners.terminal import Terminal
from hermes_lab.sandbox import open_sandbox, probe, unkept_promises
from hermes_lab.sessions import Session, SessionInfo, SessionKey, SessionStore, hermes_home
from hermes_lab.sessions.conversation import Conversation, SessionToolbox
from hermes_lab.sessions.keys import new_id
from hermes_lab.sessions.knowledge import HomeKnowledge, Views
from hermes_lab.skills.learning.listing import choose
from hermes_lab.skills.library import Library
from hermes_lab.tools.registry import Toolbox, ToolContext
from hermes_lab.types import Message, ModelIdentity
from hermes_lab.web import open_web

_KEY = SessionKey("cli", "local")
# What the prompt says that it leaves out of the context files and notes; the person should know, too.
_LEFT_OUT = re.compile(r"^\[(.+ (?:was refused|was not read|is left out): .+)\]$", re.MULTILINE)


class Chat:
    """Talks with the person at a terminal.

    `kept` is the session that it goes on with; else one is begun, named `name` if at all, and removed at the end where
    nothing was said in it. `answered` tells of a chat that is over whether something was.
    """

    def __init__(
        self,
        config: RunConfig,
        knowledge: HomeKnowledge,
        store: SessionStore,
        terminal: Terminal,
        *,
        kept: SessionInfo | None = None,
        name: str = "",
    ) -> None:
        self.answered = False
        self._config = config
        self._knowledge = knowledge
        self._store = store
        self._terminal = terminal
        self._kept = kept
        self._name = name
        self._web = open_web(config.web)

    async def run(self, prompt: str | None) -> int:
        """Answers `prompt`, or line after line; the exit code."""
        config = self._config
        await probe(config.sandbox)
        async with AsyncExitStack() as opened:
            with self._connection_note():
                model = await opened.enter_async_context(self._open_model())
                auxiliary = await opened.enter_async_context(open_auxiliary(config, say=output.say))
            sandbox = await opened.enter_async_context(open_sandbox(config.sandbox))
            repl = await opened.enter_async_context(self._session(model, sandbox, auxiliary))
            for promise in unkept_promises(config.sandbox):
                self._terminal.note(f"sandbox.backend {config.sandbox.backend}: {promise}")
            self._terminal.note("files that the agent makes are lost when this chat ends")
            with relay_logs(self._terminal.note):
                code = await (repl.loop() if prompt is None else repl.one(prompt))
        # At the end, for a large library takes seconds, and nobody waits for it then.
        if told := await anyio.to_thread.run_sync(self._knowledge.tend):
            self._terminal.note(told)
        return code

    def _open_model(self) -> AbstractAsyncContextManager[ModelClient]:
        return open_model(
            self._config.model,
            tool_format=self._kept.tool_format if self._kept else self._config.agent.tool_format,
            log=hermes_home() / "server.log",
            concurrency=1,
            say=output.say,
        )

    def _connection_note(self) -> AbstractContextManager[None]:
        """Says what is waited for; a server of our own tells of itself."""
        model = self._config.model
        if model.provider not in REMOTE:
            return nullcontext()
        return self._terminal.note_if_slow(f"no answer from {model.base_url} yet; still trying")

    @asynccontextmanager
    async def _session(
        self, model: ModelClient, sandbox: Sandbox, auxiliary: ModelClient | None
    ) -> AsyncIterator[Repl]:
        """A stored session with the prompt and the tools that it began with, or a new one."""
        stored = await anyio.to_thread.run_sync(self._store.load, self._kept.id) if self._kept else None
        id = stored.id if stored else new_id(datetime.now(UTC))
        library = await anyio.to_thread.run_sync(self._knowledge.library)
        background = await anyio.to_thread.run_sync(self._knowledge.background)
        broken = await anyio.to_thread.run_sync(self._knowledge.broken)
        for left_out in [*broken, *_LEFT_OUT.findall("\n".join(background))]:
            self._terminal.note(left_out)
        view = partial(self._knowledge.views, library, session=id, model=model.identity.name)
        views = await anyio.to_thread.run_sync(view)
        system = partial(self._system, library, background)
        delegation = Delegation(model, self._config, sandbox, views.skills, system, auxiliary=auxiliary)
        toolbox = SessionToolbox(
            self._config.agent.toolsets,
            self._context(sandbox, views, delegation),
            show=self._terminal.call,
            failed=self._terminal.failure,
            disabled=self._config.agent.disabled_tools,
            frozen=stored.tools if stored else None,
            profile=self._config.agent.prompt,
        )
        if (begun := stored) is None:
            begun = await anyio.to_thread.run_sync(self._begin, id, model.identity, system(toolbox), toolbox)
        conversation = Conversation(
            self._store,
            begun,
            model,
            toolbox,
            self._config,
            self._knowledge,
            auxiliary=auxiliary,
            say=self._terminal.note,
        )
        try:
            yield Repl(conversation, views.skills, self._terminal)
        finally:
            self.answered = conversation.session.length > begun.length
            with anyio.CancelScope(shield=True):
                if stored or self.answered:
                    self._terminal.note(f"go on with: hermes-lab chat --session {begun.name or begun.id}")
                else:
                    await anyio.to_thread.run_sync(self._store.delete, begun.id)

    def _begin(self, id: str, model: ModelIdentity, system: Message, toolbox: Toolbox) -> Session:
        return self._store.create(
            _KEY,
            name=self._name,
            model=model.adapter or model.name,
            messages=[system],
            tools=toolbox.schemas,
            tool_format=self._config.agent.tool_format,
            id=id,
        )

    def _system(self, library: Library, background: Sequence[str], toolbox: Toolbox) -> Message:
        listed = choose(library, "", self._config.skills.max_listed)
        text = system_prompt(
            toolbox.schemas,
            self._config.agent.tool_format,
            skills=listed,
            more_skills=len(library.listed) - len(listed),
            background=background,
            profile=self._config.agent.prompt,
            isolated=self._config.sandbox.backend != "local",
        )
        return Message("system", text)

    def _context(self, sandbox: Sandbox, views: Views, delegation: Delegation) -> ToolContext:
        return ToolContext(
            sandbox=sandbox,
            skills=views.skills,
            notes=views.notes,
            config=self._config.sandbox,
            ask=self._terminal.ask,
            sessions=self._store,
            delegate=delegation,
            heal_attempts=self._config.skills.heal_attempts,
            web=self._web,
        )
