"""A chat: opens the model, the sandbox and the session, and closes them at the end."""

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
from hermes_lab.chat.conversation import Conversation, SessionToolbox
from hermes_lab.chat.home_knowledge import HomeKnowledge, Views
from hermes_lab.config.schema import RunConfig
from hermes_lab.models import REMOTE, open_auxiliary, open_model
from hermes_lab.protocols import ModelClient, Sandbox
from hermes_lab.runners import output
from hermes_lab.runners.chat.repl import Repl
from hermes_lab.runners.engine.log_relay import relay_logs
from hermes_lab.runners.terminal import Terminal
from hermes_lab.sandbox import missing_guarantees, open_sandbox, probe
from hermes_lab.sessions import Session, SessionInfo, SessionKey, SessionStore, hermes_home
from hermes_lab.sessions.keys import new_id
from hermes_lab.skills.learning.listing import choose
from hermes_lab.skills.library import Library
from hermes_lab.tools.registry import ToolContext
from hermes_lab.tools.toolbox import Toolbox
from hermes_lab.types import Message, ModelIdentity
from hermes_lab.web import open_web

_KEY = SessionKey("cli", "local")
# Lines of the prompt about context files and notes that were left out; the user should see them too.
_LEFT_OUT = re.compile(r"^\[(.+ (?:was refused|was not read|is left out): .+)\]$", re.MULTILINE)


class Chat:
    """A chat with the user at a terminal.

    Resumes the session `stored`, or starts one named `name`; a new session without an answer is deleted at the end.
    After the chat, `answered` says whether the agent answered anything.
    """

    def __init__(
        self,
        config: RunConfig,
        knowledge: HomeKnowledge,
        store: SessionStore,
        terminal: Terminal,
        *,
        stored: SessionInfo | None = None,
        name: str = "",
    ) -> None:
        self.answered = False
        self._config = config
        self._knowledge = knowledge
        self._store = store
        self._terminal = terminal
        self._stored = stored
        self._name = name
        self._web = open_web(config.web)

    async def run(self, prompt: str | None) -> int:
        """Answers `prompt`, or runs the interactive loop; returns the exit code."""
        config = self._config
        await probe(config.sandbox)
        async with AsyncExitStack() as opened:
            with self._connection_note():
                model = await opened.enter_async_context(self._open_model())
                auxiliary = await opened.enter_async_context(open_auxiliary(config, say=output.say))
            sandbox = await opened.enter_async_context(open_sandbox(config.sandbox))
            repl = await opened.enter_async_context(self._session(model, sandbox, auxiliary))
            for promise in missing_guarantees(config.sandbox):
                self._terminal.note(f"sandbox.backend {config.sandbox.backend}: {promise}")
            self._terminal.note("files that the agent creates are deleted when this chat ends")
            with relay_logs(self._terminal.note):
                code = await (repl.loop() if prompt is None else repl.one(prompt))
        # At the end, because this takes seconds with a large library.
        if note := await anyio.to_thread.run_sync(self._knowledge.tend):
            self._terminal.note(note)
        return code

    def _open_model(self) -> AbstractAsyncContextManager[ModelClient]:
        return open_model(
            self._config.model,
            tool_format=self._stored.tool_format if self._stored else self._config.agent.tool_format,
            log=hermes_home() / "server.log",
            concurrency=1,
            say=output.say,
        )

    def _connection_note(self) -> AbstractContextManager[None]:
        """Tells the user if an endpoint is slow to answer; a local server reports its own progress."""
        model = self._config.model
        if model.provider not in REMOTE:
            return nullcontext()
        return self._terminal.note_if_slow(f"no answer from {model.base_url} yet; still trying")

    @asynccontextmanager
    async def _session(
        self, model: ModelClient, sandbox: Sandbox, auxiliary: ModelClient | None
    ) -> AsyncIterator[Repl]:
        """A stored session with its original prompt and tools, or a new one."""
        stored = await anyio.to_thread.run_sync(self._store.load, self._stored.id) if self._stored else None
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
                    self._terminal.note(f"resume with: hermes-lab chat --session {begun.name or begun.id}")
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
