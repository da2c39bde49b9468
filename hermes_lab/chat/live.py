"""A live chat: one sandbox, one model at a time, and one session after another."""

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from hermes_lab.agent.delegate import Delegation
from hermes_lab.agent.persona import persona, persona_in
from hermes_lab.agent.prompt import system_prompt
from hermes_lab.chat.conversation import Conversation
from hermes_lab.chat.home_knowledge import HomeKnowledge, Views
from hermes_lab.chat.servers import ChatServers, open_chat_servers
from hermes_lab.chat.session_toolbox import SessionToolbox
from hermes_lab.chat.summaries import Summaries
from hermes_lab.chat.surface import Surface
from hermes_lab.chat.turns import TurnLog
from hermes_lab.config.home import HomeConfig, check_personality
from hermes_lab.config.home_file import load_home_config
from hermes_lab.errors import ConfigError
from hermes_lab.mcp.check import check_servers, need_sdk
from hermes_lab.mcp.programs import extras_of
from hermes_lab.models import REMOTE, open_auxiliary, open_model
from hermes_lab.protocols import ModelClient, Sandbox
from hermes_lab.sandbox import open_sandbox, probe
from hermes_lab.sandbox.persistent import open_workspace
from hermes_lab.sessions import Session, SessionInfo, SessionKey, SessionStore, hermes_home
from hermes_lab.sessions.keys import new_id
from hermes_lab.skills.learning.listing import choose
from hermes_lab.skills.library import Library
from hermes_lab.skills.storage.store import SkillStore
from hermes_lab.tools.background import Background
from hermes_lab.tools.registry import Proposals, ToolContext
from hermes_lab.tools.scratch import Scratch
from hermes_lab.tools.toolbox import Toolbox, tool_extras
from hermes_lab.types import Message
from hermes_lab.web import open_web
from hermes_lab.web.browser.session import BrowserSession

# Lines of the prompt about context files and notes that were left out; the user should see them too.
_LEFT_OUT = re.compile(r"^\[(.+ (?:was refused|was not read|is left out): .+)\]$", re.MULTILINE)


@dataclass(frozen=True)
class _Opened:
    """A session under way. `length`: its messages when it was opened. `fresh`: it was not stored before, so it is
    deleted when it is left without an answer."""

    conversation: Conversation
    context: ToolContext
    library: Library
    turns: TurnLog | None
    length: int
    fresh: bool


class LiveChat:
    """A chat under way. It is used by one task at a time.

    `key` says where it is held. `config` is that of the current model. `servers` are its MCP servers. `workspace` is a
    folder of this machine whose files stay, if the agent works in one. `sources` are the `-c` options. `hint` tells
    new sessions about the place. `jobs` takes the scheduled jobs that the agent proposes.
    """

    def __init__(
        self,
        config: HomeConfig,
        knowledge: HomeKnowledge,
        store: SessionStore,
        surface: Surface,
        sandbox: Sandbox,
        auxiliary: ModelClient | None,
        key: SessionKey,
        servers: ChatServers,
        workspace: Path | None = None,
        sources: Sequence[str] = (),
        hint: str = "",
        jobs: Proposals | None = None,
    ) -> None:
        self.config = config
        self.store = store
        self.key = key
        self.surface = surface
        self.workspace = workspace
        self.sandbox = sandbox
        self.servers = servers
        self.sources = sources
        self._hint = hint
        self._jobs = jobs
        self._knowledge = knowledge
        self._auxiliary = auxiliary
        self._web = open_web(config.web)
        self._models = AsyncExitStack()
        self._model: ModelClient | None = None
        self._opened: _Opened | None = None

    @property
    def conversation(self) -> Conversation:
        """The current session's conversation."""
        return self._now.conversation

    @property
    def session(self) -> Session:
        """The current session."""
        return self.conversation.session

    @property
    def context(self) -> ToolContext:
        """What the current session's tools work on."""
        return self._now.context

    @property
    def library(self) -> Library:
        """The skills, with those that this session has written."""
        return self.context.skills.library if self.context.skills else self._now.library

    @property
    def skill_store(self) -> SkillStore:
        """The skills on the disk."""
        return self._knowledge.store

    async def reload_skills(self) -> None:
        """Reads the skills again after a change from outside. The prompt lists them from the next session on."""
        library = await anyio.to_thread.run_sync(self._knowledge.library)
        if self.context.skills:
            self.context.skills.library = library
        self._opened = replace(self._now, library=library)

    async def reload_servers(self) -> list[str]:
        """Reads `mcp` of the configuration again and connects to these servers instead of the current ones. Returns
        what has changed, a line each. The prompt lists new tools from the next session on. Raises `ConfigError`."""
        config = (await anyio.to_thread.run_sync(load_home_config, hermes_home(), self.sources)).mcp
        need_sdk(config)
        changed = await self.servers.reload(config)
        self.config = self.config.model_copy(update={"mcp": config})
        self.conversation.toolbox.serve(self.servers.tools)
        self._use_servers(self.conversation.toolbox, self._now.turns)
        return changed

    def _use_servers(self, toolbox: Toolbox, turns: TurnLog | None) -> None:
        self.servers.join(toolbox)
        if turns:
            turns.use_servers(self.servers.served)

    @property
    def held_at(self) -> SessionKey | None:
        """The key whose sessions and jobs may be seen here; None: all. On chat platforms several people write to one
        home."""
        return None if self.key.platform == "cli" or self.config.gateway.shared_history else self.key

    @property
    def kept(self) -> bool:
        """Whether the current session stays: it was stored before, or the agent has answered."""
        return not self._now.fresh or self.session.length > self._now.length

    async def begin(self, name: str = "") -> None:
        """Leaves the current session and starts a new one. Raises `ConfigError` for an invalid or taken name."""
        await self._enter(None, name)

    async def resume(self, info: SessionInfo) -> None:
        """Leaves the current session and continues a stored one, with its own prompt and tools."""
        await self._enter(info, "")
        if self.persona_changed:
            self.surface.note(
                "your profile or personality has changed since this session began; it holds from the next one (/new)"
            )

    @property
    def persona_changed(self) -> bool:
        """Whether a new session's prompt would say something else about the person, or how to speak."""
        began = datetime.fromisoformat(self.session.created)
        return persona(self.config, began) != persona_in(self.session.messages[0].content)

    def use_personality(self, name: str) -> None:
        """Chooses how the agent speaks in the sessions that begin from now on. Raises `ConfigError` if there is none of
        that name."""
        try:
            check_personality(name, self.config.personalities)
        except ValueError as error:
            raise ConfigError(str(error)) from None
        self.config = self.config.model_copy(update={"personality": name})

    async def use_model(self, name: str) -> None:
        """Continues the session with another model of the same endpoint. Raises `ConfigError` if it has none of that
        name, `ModelError` if it does not answer; the model is then the one before."""
        if self.config.model.provider not in REMOTE:
            raise ConfigError(
                f"model.provider={self.config.model.provider}: its model is chosen at the start; leave the chat and "
                f"start it with -c model.name={name}"
            )
        before = self.config
        model = self.config.model.model_copy(update={"name": name, "adapter": ""})
        self.config = self.config.model_copy(update={"model": model})
        try:
            await self._open_model(self.session.tool_format)
        except BaseException:
            self.config = before
            raise
        now = self._now
        opened = await self._open(self.session, now.library, now.context)
        if now.turns:
            now.turns.close()
        self._opened = replace(opened, length=now.length, fresh=now.fresh)

    async def leave(self) -> None:
        """Leaves the current session; a new one without an answer is deleted."""
        if self._opened and self._opened.turns:
            self._opened.turns.close()
        if self._opened and not self.kept:
            with suppress(ConfigError):  # another process has deleted it
                await anyio.to_thread.run_sync(self.store.delete, self.session.id)
        self._opened = None

    async def aclose(self) -> None:
        """Leaves the session and closes the model."""
        try:
            await self.leave()
        finally:
            await self._models.aclose()

    @property
    def _now(self) -> _Opened:
        assert self._opened is not None, "no session was begun"
        return self._opened

    async def _enter(self, info: SessionInfo | None, name: str) -> None:
        stored = await anyio.to_thread.run_sync(self.store.load, info.id) if info else None
        tool_format = stored.tool_format if stored else self.config.agent.tool_format
        if self._model is None:
            await self._open_model(tool_format)
        library = await anyio.to_thread.run_sync(self._knowledge.library)
        before = self._opened.context if self._opened else None
        opened = await self._open(stored, library, before, name)
        await self.leave()
        self._opened = opened

    async def _open_model(self, tool_format: str) -> None:
        opening: AbstractAsyncContextManager[ModelClient] = open_model(
            self.config.model,
            tool_format="hermes" if tool_format == "hermes" else "native",
            log=hermes_home() / "server.log",
            concurrency=1,
            say=self.surface.note,
        )
        stack = AsyncExitStack()
        self._model = await stack.enter_async_context(opening)
        await self._models.aclose()
        self._models = stack

    async def _open(
        self, stored: Session | None, library: Library, before: ToolContext | None, name: str = ""
    ) -> _Opened:
        """A stored session with its original prompt and tools, or a new one. `before`: what the tools of the session
        before worked on, whose background commands go on."""
        assert self._model is not None
        now = datetime.now(UTC)
        id = stored.id if stored else new_id(now)
        background = await anyio.to_thread.run_sync(self._knowledge.background)
        broken = await anyio.to_thread.run_sync(self._knowledge.broken)
        for left_out in [*broken, *_LEFT_OUT.findall("\n".join(background))]:
            self.surface.note(left_out)
        if stored is None and (read := await anyio.to_thread.run_sync(self._knowledge.context_files)):
            self.surface.note(f"context files found: {', '.join(map(str, read))}")
        identity = self._model.identity
        view = partial(self._knowledge.views, library, session=id, model=identity.name)
        views = await anyio.to_thread.run_sync(view)
        said = persona_in(stored.messages[0].content) if stored else persona(self.config, now)
        system = partial(self._system, library, background, said)
        delegation = Delegation(self._model, self.config, self.sandbox, views.skills, system, auxiliary=self._auxiliary)
        context = self._context(views, delegation, before)
        toolbox = SessionToolbox(
            self.config.agent.toolsets,
            context,
            show=self.surface.call,
            shown=self.surface.result,
            disabled=self.config.agent.disabled_tools,
            given=self.servers.tools,
            frozen=stored.tools if stored else None,
            profile=self.config.agent.prompt,
        )
        if (session := stored) is None:
            create = partial(
                self.store.create,
                self.key,
                name=name,
                model=identity.adapter or identity.name,
                messages=[system(toolbox)],
                tools=toolbox.schemas,
                tool_format=self.config.agent.tool_format,
                id=id,
            )
            session = await anyio.to_thread.run_sync(create)
        turns = await anyio.to_thread.run_sync(self._turns, session, library) if self.config.chat.record else None
        conversation = Conversation(
            self.store,
            session,
            self._model,
            toolbox,
            self.config,
            self._knowledge,
            turns=turns,
            auxiliary=self._auxiliary,
            say=self.surface.note,
            on_text=self.surface.text,
        )
        self._use_servers(toolbox, turns)
        return _Opened(conversation, context, library, turns, session.length, fresh=stored is None)

    def _turns(self, session: Session, library: Library) -> TurnLog:
        place = {"platform": self.key.platform, "consent": self.config.chat.consent}
        return TurnLog(hermes_home(), session.id, self.config.of_a_run, library, place)

    def _system(self, library: Library, background: Sequence[str], said: str, toolbox: Toolbox) -> Message:
        listed = choose(library, "", self.config.skills.max_listed)
        text = system_prompt(
            toolbox.schemas,
            self.config.agent.tool_format,
            persona=said,
            skills=listed,
            more_skills=len(library.listed) - len(listed),
            background=[self._hint, *background] if self._hint else background,
            profile=self.config.agent.prompt,
            isolated=self.config.sandbox.isolates,
        )
        return Message("system", text)

    def _context(self, views: Views, delegation: Delegation, before: ToolContext | None) -> ToolContext:
        context = ToolContext(
            sandbox=self.sandbox,
            skills=views.skills,
            notes=views.notes,
            config=self.config.sandbox,
            ask=self.surface.ask,
            send=self.surface.send,
            sessions=self.store,
            held_at=self.held_at,
            summarise=Summaries(),
            delegate=delegation,
            heal_attempts=self.config.skills.heal_attempts,
            web=self._web,
            jobs=self._jobs,
        )
        return context.sharing(before, Background, Scratch, BrowserSession) if before else context


@asynccontextmanager
async def open_chat(
    config: HomeConfig,
    knowledge: HomeKnowledge,
    store: SessionStore,
    surface: Surface,
    key: SessionKey,
    sources: Sequence[str] = (),
    hint: str = "",
    jobs: Proposals | None = None,
) -> AsyncIterator[LiveChat]:
    """Opens a chat's sandbox; the model is opened with the first session. Raises `InfraError`, and `ConfigError` for a
    folder that cannot be its workspace."""
    check_servers(config, config.mcp)
    await probe(config.sandbox)
    opener = partial(open_sandbox, config.sandbox)
    extras = extras_of(config.mcp).joined(tool_extras(config.agent.toolsets, config.agent.disabled_tools))
    async with (
        open_auxiliary(config, say=surface.note) as auxiliary,
        open_workspace(config.sandbox, hermes_home()) as workspace,
        opener(extras._replace(workspace=workspace)) as sandbox,
        open_chat_servers(config.mcp, opener, sandbox, surface.note) as servers,
    ):
        chat = LiveChat(
            config, knowledge, store, surface, sandbox, auxiliary, key, servers, workspace, sources, hint, jobs
        )
        try:
            yield chat
        finally:
            with anyio.CancelScope(shield=True):
                await chat.aclose()
