"""A live chat session: the agent works on one message after another, and every turn is stored when it ends."""

import json
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import anyio
import anyio.to_thread

from hermes_lab.agent.delegate import Delegation
from hermes_lab.agent.loop import Agent, result_messages, summariser_of
from hermes_lab.agent.review import due, review, tool_iterations
from hermes_lab.chat.home_knowledge import HomeKnowledge
from hermes_lab.chat.processes import end_others, processes_in
from hermes_lab.chat.recall import recall_of, without_recall
from hermes_lab.chat.session_toolbox import SessionToolbox
from hermes_lab.chat.summaries import Summaries
from hermes_lab.chat.turns import Mark, OpenTurn, TurnId, TurnLog, mark
from hermes_lab.config.schema import RunConfig
from hermes_lab.errors import ConfigError, InfraError
from hermes_lab.models.reasoning import split_reasoning
from hermes_lab.protocols import ModelClient, OnText, Sandbox
from hermes_lab.sessions.database import Session, SessionStore
from hermes_lab.skills.learning.observe import observe
from hermes_lab.skills.slash import Expanded, expand_typed
from hermes_lab.transcript import CONCLUDE
from hermes_lab.types import EpisodeError, Message, Review, ToolResult, Trajectory, Usage
from hermes_lab.types.trajectory import StopReason

_INTERRUPTED = json.dumps({"error": "interrupted by the user"})


class Turn(NamedTuple):
    """The result of a message: the stop reason, the answer if there is one, and the tokens used."""

    stop: StopReason
    answer: str | None
    usage: Usage


class Said(NamedTuple):
    """A message as it was typed. A `literal` one loads no skill."""

    text: str
    literal: bool = False


class Compressed(NamedTuple):
    """The tokens of the context before and after a compression. The second is an estimate in proportion to the text, as
    no server has counted them yet."""

    before: int
    after: int


class Conversation:
    """A session with a model and tools.

    Every turn creates an agent that continues the stored session with the whole budget of `config.agent`, so a live
    session behaves exactly as a resumed one. `say` receives a line about the outcome of a `/skill-name`. `cost` is that
    of all model calls since it was opened, at `model.price`. `on_text` gets the replies of turns as they come.
    Turns are also written to the log `turns`.
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
        turns: TurnLog | None = None,
        auxiliary: ModelClient | None = None,
        say: Callable[[str], None],
        on_text: OnText | None = None,
    ) -> None:
        self.session = session
        self._store = store
        self._model = model
        self.toolbox = toolbox
        self._config = config
        self._knowledge = knowledge
        self._turns = turns
        self._auxiliary = auxiliary
        self._say = say
        self._on_text = on_text
        self._answered = True
        self._unsent: Said | None = None
        self._typed: dict[int, str] = {}
        self._recalled: dict[tuple[int, str], str] = {}
        self.cost = 0.0
        self._agent_config = config.agent.model_copy(update={"tool_format": session.tool_format})

    async def submit(self, prompt: str, *, literal: bool = False, typed: str = "") -> Turn:
        """Works on a message and stores the turn.

        A leading `/skill-name` loads that skill, unless the message is `literal`; recalled memories are put before the
        message. A turn that is cancelled or fails kills every process it started. If the model had replied, the turn is
        kept, and its open calls get an error result; otherwise the message counts as never sent. `session` shows which.
        `typed` is what lists of sessions show of it, if that is not the prompt. Raises `ConfigError`, before the model
        is called, if the session went on in another process.
        """
        await anyio.to_thread.run_sync(self._store.check, self.session)
        skills, length = self.toolbox.context.skills, self.session.length
        loaded = len(skills.loaded) if skills else 0
        self._typed[length], self._unsent = prompt, None
        agent = self._agent(self._on_text)
        marks = self._marks()
        turn = OpenTurn(length, prompt, self.toolbox.context, marks, self.session.compressions)
        before = await processes_in(self._sandbox)
        try:
            expanded = Expanded(prompt)
            if skills and not literal:
                expanded = await expand_typed(prompt, skills, self._sandbox, self._config)
            message = expanded.message
            if expanded.note:
                self._say(expanded.note)
            if block := await self._recall(length, prompt):
                message = f"{block}\n\n{message}"
            stop = await agent.submit(message)
        except BaseException as failure:
            with anyio.CancelScope(shield=True):
                try:
                    await end_others(self._sandbox, before)
                finally:
                    if agent.steps:
                        self._answer_open_calls(agent.messages)
                        await self._keep(agent, typed or prompt)
                        self._unsent = None
                    else:  # the message was never sent
                        self._typed.pop(length)
                        self._unsent = Said(prompt, literal)
                        if skills:
                            del skills.loaded[loaded:]
                    if agent.steps or isinstance(failure, InfraError):
                        await self._log(turn, self._mark(length), _error_of(failure))
            raise
        with anyio.CancelScope(shield=True):
            await self._keep(agent, typed or prompt)
            trajectory = agent.trajectory(stop)
            await self._log(turn, self._mark(length), trajectory)
        answer = trajectory.final_response
        self._answered = answer is not None
        if self._knowledge:
            remember = partial(self._knowledge.remember, stop=stop, answer=answer, session=self.session.id)
            said = [Message("user", prompt), *self.session.messages[length + 1 :]]
            names = list(dict.fromkeys(skills.loaded[loaded:])) if skills else []
            await anyio.to_thread.run_sync(remember, said, names)
        return Turn(stop, answer, agent.usage)

    def wants_review(self, since: int) -> bool:
        """Whether the messages from index `since` on are worth a review; never if the last turn has no answer."""
        recent = self.session.messages[since:]
        if not self._answered or not recent or recent[-1].role != "assistant" or recent[-1].tool_calls:
            return False
        if not (answer := split_reasoning(recent[-1].content).answer).strip():
            return False
        turns = Trajectory(recent, self.session.tools, self.session.tool_format, "answered", final_response=answer)
        config = self._config.skills
        return due(0, tool_iterations(recent), observe(turns, (), config), config)

    async def review(self) -> Review:
        """Reviews the session; later sessions start with what it saves. Gives up after `agent.max_seconds`."""
        limit = self._config.agent.max_seconds
        done = Review(error=EpisodeError("internal", f"no result within {limit:g} s"), seconds=limit)
        with anyio.move_on_after(limit):
            done = await review(self._agent(), self.toolbox, (), self._config.skills)
        if self._turns and (turns := self.turns()):
            await self._written(self._turns.reviewed(self._mark(turns[-1]), done))
        return done

    async def compress(self, target: int = 0) -> Compressed | None:
        """Summarises the middle turns now, to get below `target` tokens if it is given. None if nothing changed."""
        agent = self._agent()
        before, estimated = self.tokens(), agent.context.tokens()
        if not await agent.compress(target):
            return None
        share = agent.context.tokens() / max(estimated, 1)
        after = round(before * share)
        await self._keep(agent, context_tokens=after)
        return Compressed(before, after)

    def tokens(self) -> int:
        """The tokens of the context: as the server counted them at the last turn, else an estimate."""
        return self.session.context_tokens or self._agent().context.tokens()

    async def reload(self) -> None:
        """Reads the session again, after it was renamed."""
        self.session = await anyio.to_thread.run_sync(self._store.load, self.session.id)

    def turns(self) -> list[int]:
        """The indices of the user's messages."""
        summaries = {compression.at for compression in self.session.compressions}
        return [
            index
            for index, message in enumerate(self.session.messages)
            if message.role == "user" and not message.results and message.content != CONCLUDE and index not in summaries
        ]

    def said(self, index: int) -> str:
        """The user's message at an index of `turns`, as it was typed."""
        return self._typed.get(index) or without_recall(self.session.messages[index].content)

    @property
    def last_turn(self) -> TurnId | None:
        """The last turn that is in the log of turns."""
        if not self._turns or self._unsent or not (turns := self.turns()):
            return None
        return TurnId(self.session.id, self._mark(turns[-1]))

    async def judge(self, turn: TurnId | None, *, good: bool | None, comment: str = "") -> bool:
        """Records the user's verdict on a turn of this session; None takes it back. False if there is no turn, or it
        has no answer."""
        if not self._turns or turn is None:
            return False
        return await self._turns.judge(turn.mark, good=good, comment=comment)

    async def retry(self) -> Said | None:
        """Takes back the last turn, to try it again; returns the user's message, None if there is none.

        With the turn that follows it, the log then has a preference pair. A last message that the model never replied
        to is no turn, and is just sent again.
        """
        if self._unsent:
            return self._unsent
        if not (turns := self.turns()):
            return None
        said = self.said(turns[-1])
        # What a skill was put before differs from what was typed.
        literal = without_recall(self.session.messages[turns[-1]].content) == said
        if self._turns:
            await self._written(self._turns.retried(self._mark(turns[-1]), said))
        await self._cut(turns[-1:])
        return Said(said, literal)

    async def undo(self, turns: int = 1) -> list[str]:
        """Takes back the last turns. Returns the user's messages, first to last.

        What tools did in the sandbox, and what was saved as skills, notes and memories, remains.
        """
        removed = self.turns()[-turns:]
        if not removed:
            return []
        if self._turns:
            await self._written(self._turns.undone([self._mark(index) for index in removed]))
        return await self._cut(removed)

    async def _cut(self, removed: Sequence[int]) -> list[str]:
        said = [self.said(index) for index in removed]
        for index, text in zip(removed, said, strict=True):  # should it be tried again, its prompt is the same
            self._recalled[index, text] = recall_of(self.session.messages[index].content)
        self.session = await anyio.to_thread.run_sync(self._store.cut, self.session, removed[0])
        self._typed = {index: text for index, text in self._typed.items() if index < removed[0]}
        self._answered = True
        return said

    def _agent(self, on_text: OnText | None = None) -> Agent:
        agent = Agent(
            self._model,
            self.toolbox,
            self._agent_config,
            self.session.messages,
            self._config.model.price,
            summariser=summariser_of(self._config, self._auxiliary),
            on_text=on_text,
        )
        agent.context.compressions += self.session.compressions
        if isinstance(delegation := self.toolbox.context.delegate, Delegation):
            delegation.serve(agent, self.toolbox)
        if isinstance(summaries := self.toolbox.context.summarise, Summaries):
            summaries.serve(agent)
        return agent

    async def _recall(self, at: int, prompt: str) -> str:
        if not self._knowledge:
            return ""
        if (known := self._recalled.get((at, prompt))) is not None:
            return known
        return await anyio.to_thread.run_sync(self._knowledge.recall, prompt)

    def _mark(self, at: int) -> Mark:
        """The mark of the turn whose user message has that index; also of one that was never sent."""
        return next((each for each in self._marks() if each.at == at), mark(at, ()))

    def _marks(self) -> list[Mark]:
        """The marks of all turns."""
        summaries = {compression.at for compression in self.session.compressions}
        turns, messages = self.turns(), self.session.messages
        return [
            mark(at, (messages[index] for index in range(at, end) if index not in summaries))
            for at, end in pairwise([*turns, self.session.length])
        ]

    async def _log(self, turn: OpenTurn, own: Mark, result: Trajectory | EpisodeError) -> None:
        if self._turns:
            await self._written(self._turns.add(turn, own, self._model.identity, result))

    async def _written(self, writing: Awaitable[Any]) -> None:
        """The session itself is stored elsewhere, so that a turn that is not logged ends nothing."""
        try:
            await writing
        except (OSError, ConfigError) as error:
            self._say(f"this turn is not in the log of turns: {error}")

    async def _keep(self, agent: Agent, typed: str = "", context_tokens: int = 0) -> None:
        """Stores what the agent did. `context_tokens` 0: those that the agent knows of."""
        self.cost += agent.cost
        append = partial(
            self._store.append,
            self.session,
            agent.messages[self.session.length :],
            usage=agent.usage,
            compressions=agent.context.compressions[len(self.session.compressions) :],
            context_tokens=context_tokens or agent.context.tokens(),
            typed=typed,
        )
        self.session = await anyio.to_thread.run_sync(append)

    def _answer_open_calls(self, messages: list[Message]) -> None:
        """Gives open calls an error result; servers reject a conversation in which a call has none."""
        if not (calls := messages[-1].tool_calls):
            return
        done = self.toolbox.done
        results = tuple(done.get(c.id) or ToolResult(c.id, c.name, _INTERRUPTED, ok=False) for c in calls)
        if skills := self.toolbox.context.skills:
            skills.confirm_loads(results)
        messages += result_messages(results, self.session.tool_format)

    @property
    def _sandbox(self) -> Sandbox:
        return self.toolbox.context.sandbox


def _error_of(failure: BaseException) -> EpisodeError:
    if isinstance(failure, InfraError):
        return EpisodeError(failure.kind, str(failure))
    if isinstance(failure, anyio.get_cancelled_exc_class()):
        return EpisodeError("interrupted", "stopped by the user")
    return EpisodeError("internal", f"{type(failure).__name__}: {failure}")
