"""A session that is being held: the agent works on one message after another, and every turn is stored as it ends."""

import json
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import anyio
import anyio.to_thread

from hermes_lab.agent.delegate import Delegation
from hermes_lab.agent.loop import Agent, result_messages, summariser_of
from hermes_lab.agent.review import due, review, tool_iterations
from hermes_lab.chat.home_knowledge import HomeKnowledge
from hermes_lab.config.schema import RunConfig
from hermes_lab.errors import SandboxError
from hermes_lab.models.reasoning import part
from hermes_lab.protocols import ModelClient, Sandbox
from hermes_lab.sandbox.local import LocalSandbox
from hermes_lab.sessions.database import Session, SessionStore
from hermes_lab.skills.learning.observe import observe
from hermes_lab.skills.slash import Expanded, expand_typed
from hermes_lab.tools.registry import Toolbox, ToolContext, known_tools, unavailable_tools
from hermes_lab.tools.schema import Profile
from hermes_lab.types import EpisodeError, Message, Review, ToolCall, ToolResult, Trajectory, Usage
from hermes_lab.types.trajectory import StopReason

_INTERRUPTED = json.dumps({"error": "interrupted by the user"})
_PASSES = 200
_PROCESSES = "echo /proc/[0-9]*"
_END_OTHERS = """\
for entry in /proc/[0-9]*; do
  case " {known} /proc/1 /proc/$BASHPID " in *" $entry "*) ;; *) kill -KILL "${{entry#/proc/}}" 2>/dev/null ;; esac
done
true"""


class Turn(NamedTuple):
    """What became of a message: how the work on it ended, the answer if there is one, and the tokens it took."""

    stop: StopReason
    answer: str | None
    usage: Usage


class SessionToolbox(Toolbox):
    """The tools of a session, each call `show`n as it begins, and what `failed` when it ends.

    `frozen` are the schemas that the session was begun with: the model goes on seeing these, byte for byte, even where
    a tool has changed since or cannot work here; such a call is answered with an error.
    """

    def __init__(
        self,
        toolsets: Sequence[str],
        context: ToolContext,
        *,
        show: Callable[[ToolCall], None],
        failed: Callable[[ToolResult], None],
        disabled: Sequence[str] = (),
        frozen: tuple[dict[str, Any], ...] | None = None,
        profile: Profile = "full",
    ) -> None:
        if frozen is not None:
            names = [schema["function"]["name"] for schema in frozen]
            toolsets = [name for name in names if name in known_tools() and name not in unavailable_tools()]
            disabled = ()
        super().__init__(toolsets, context, disabled, profile=profile)
        self.done: dict[str, ToolResult] = {}
        self._show = show
        self._failed = failed
        self._frozen = frozen

    @property
    def schemas(self) -> tuple[dict[str, Any], ...]:
        """The schemas that the model sees."""
        return super().schemas if self._frozen is None else self._frozen

    async def run_all(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        """See `Toolbox.run_all`; `done` are the answers of this turn's calls so far."""
        self.done = {}
        return await super().run_all(calls)

    async def run(self, call: ToolCall) -> ToolResult:
        """See `Toolbox.run`."""
        self._show(call)
        result = await super().run(call)
        self.done[call.id] = result
        if not result.ok:
            self._failed(result)
        return result


class Conversation:
    """A session with a model and tools.

    Each turn has an agent of its own that continues what is stored, and so the whole budget of `config.agent`: holding
    a session and resuming it are the same. `say` gets a line about what became of a `/skill-name`.
    """

    def __init__(
        self,
        store: SessionStore,
        session: Session,
        model: ModelClient,
        toolbox: SessionToolbox,
        config: RunConfig,
        knowledge: HomeKnowledge | None = None,
        *,
        auxiliary: ModelClient | None = None,
        say: Callable[[str], None],
    ) -> None:
        self.session = session
        self._store = store
        self._model = model
        self._toolbox = toolbox
        self._config = config
        self._knowledge = knowledge
        self._auxiliary = auxiliary
        self._say = say
        self._answered = True
        self._agent_config = config.agent.model_copy(update={"tool_format": session.tool_format})

    async def submit(self, prompt: str) -> Turn:
        """Works on a message, and stores the turn. `/skill-name` at its beginning loads that skill; what earlier work
        says to the message stands before it.

        A turn that is cancelled or fails ends every process that it started. It is kept if the model had replied, its
        open calls answered with an error; else the message counts as never sent. `session` tells which.
        """
        skills, length = self._toolbox.context.skills, self.session.length
        loaded = len(skills.loaded) if skills else 0
        message, note = expand_typed(prompt, skills) if skills else Expanded(prompt)
        if note:
            self._say(note)
        agent = self._agent()
        before = await self._processes()
        try:
            if self._knowledge and (block := await anyio.to_thread.run_sync(self._knowledge.recall, prompt)):
                message = f"{block}\n\n{message}"
            stop = await agent.submit(message)
        except BaseException:
            with anyio.CancelScope(shield=True):
                try:
                    await self._end_processes(before)
                finally:
                    if agent.steps:
                        self._answer_open_calls(agent.messages)
                        await self._keep(agent, prompt)
                    elif skills:  # the message, and a skill in it, was never sent
                        del skills.loaded[loaded:]
            raise
        with anyio.CancelScope(shield=True):
            await self._keep(agent, prompt)
        answer = agent.trajectory(stop).final_response
        self._answered = answer is not None
        if self._knowledge:
            remember = partial(self._knowledge.remember, stop=stop, answer=answer, session=self.session.id)
            said = [Message("user", prompt), *self.session.messages[length + 1 :]]
            names = list(dict.fromkeys(skills.loaded[loaded:])) if skills else []
            await anyio.to_thread.run_sync(remember, said, names)
        return Turn(stop, answer, agent.usage)

    def wants_review(self, since: int) -> bool:
        """Whether the agent should look back on what was said from message `since` on; never on a turn without an
        answer."""
        recent = self.session.messages[since:]
        if not self._answered or not recent or recent[-1].role != "assistant" or recent[-1].tool_calls:
            return False
        if not (answer := part(recent[-1].content).answer).strip():
            return False
        turns = Trajectory(recent, self.session.tools, self.session.tool_format, "answered", final_response=answer)
        config = self._config.skills
        return due(0, tool_iterations(recent), observe(turns, (), config), config)

    async def review(self) -> Review:
        """Has the agent look back on the session; what it saves is there for later ones. It is given up after
        `agent.max_seconds`, whatever it waits for."""
        limit = self._config.agent.max_seconds
        with anyio.move_on_after(limit):
            return await review(self._agent(), self._toolbox, (), self._config.skills)
        return Review(error=EpisodeError("internal", f"it took more than {limit:g} s"), seconds=limit)

    async def compress(self) -> bool:
        """Has the middle turns summarised now; False where nothing was changed."""
        agent = self._agent()
        changed = await agent.compress()
        if changed:
            await self._keep(agent)
        return changed

    def _agent(self) -> Agent:
        agent = Agent(
            self._model,
            self._toolbox,
            self._agent_config,
            self.session.messages,
            self._config.model.price,
            summariser=summariser_of(self._config, self._auxiliary),
        )
        agent.context.compressions += self.session.compressions
        if isinstance(delegation := self._toolbox.context.delegate, Delegation):
            delegation.serve(agent, self._toolbox)
        return agent

    async def _keep(self, agent: Agent, typed: str = "") -> None:
        append = partial(
            self._store.append,
            self.session,
            agent.messages[self.session.length :],
            usage=agent.usage,
            compressions=agent.context.compressions[len(self.session.compressions) :],
            typed=typed,
        )
        self.session = await anyio.to_thread.run_sync(append)

    def _answer_open_calls(self, messages: list[Message]) -> None:
        """A call is never parted from its answer, or servers refuse the conversation."""
        if not (calls := messages[-1].tool_calls):
            return
        done = self._toolbox.done
        results = tuple(done.get(c.id) or ToolResult(c.id, c.name, _INTERRUPTED, ok=False) for c in calls)
        if skills := self._toolbox.context.skills:
            skills.confirm_loads(results)
        messages += result_messages(results, self.session.tool_format)

    async def _processes(self) -> frozenset[str]:
        """The processes of the sandbox: what an interrupt of the coming turn leaves alone."""
        if isinstance(self._sandbox, LocalSandbox):
            return frozenset(map(str, self._sandbox.processes()))
        return frozenset((await self._sandbox.exec(_PROCESSES, fresh=True)).output.split())

    async def _end_processes(self, before: frozenset[str]) -> None:
        """Ends those that began since; a command in the foreground was ended by the cancellation itself."""
        if isinstance(self._sandbox, LocalSandbox):  # inside, /proc is the machine's
            for _ in range(_PASSES):  # while they fork
                if not (new := [pid for pid in self._sandbox.processes() if str(pid) not in before]):
                    return
                for pid in new:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                await anyio.sleep(0.002)
            return
        with suppress(SandboxError):  # it has died, and they with it
            await self._sandbox.exec(_END_OTHERS.format(known=" ".join(before)), fresh=True)

    @property
    def _sandbox(self) -> Sandbox:
        return self._toolbox.context.sandbox
