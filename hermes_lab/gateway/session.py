"""Works on the messages of one chat, one after another; commands that need not wait are answered at once."""

import logging
import math
import re
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from hermes_lab.chat.endings import chosen
from hermes_lab.chat.home_knowledge import HomeKnowledge
from hermes_lab.chat.live import LiveChat, open_chat
from hermes_lab.chat.notices import Notices
from hermes_lab.chat.turns import TurnId
from hermes_lab.commands.command import Command
from hermes_lab.commands.registry import Typed, Unknown
from hermes_lab.commands.talk import Talk
from hermes_lab.config.home import HomeConfig
from hermes_lab.cron.proposals import JobProposals
from hermes_lab.errors import ConfigError, HermesLabError, InfraError, SandboxError, ToolError
from hermes_lab.gateway.attribution import attributed
from hermes_lab.gateway.store import GatewayStore, Ids, Piece, Row
from hermes_lab.gateway.surface import PlatformSurface
from hermes_lab.models.reasoning import split_reasoning
from hermes_lab.sessions import SessionInfo, SessionKey, SessionStore
from hermes_lab.skills.conditions import Place
from hermes_lab.tools.background import Background

_MOST_TRIES = 3
_SKILL = re.compile(r"/[\w-]+(?:\s+|\Z)")
"""A skill that a message loads, before the text for it."""
_WATCH_SECONDS = 1.0
_NOTHING = "(done)"
_CUT = "I was restarted while I worked on this, and may have done part of it."
_FAILED = "error: I failed at this message several times, and gave it up"
_log = logging.getLogger("hermes_lab.gateway")


@dataclass(frozen=True)
class Shared:
    """What the sessions of a gateway share. `sources` are the `-c` options; `working` limits the turns under way;
    `outgoing` is called when a platform has something to send; `hints` tell the model about each platform."""

    config: HomeConfig
    home: Path
    store: GatewayStore
    sessions: SessionStore
    ids: Ids
    working: anyio.CapacityLimiter
    outgoing: Callable[[str], None]
    one_reply: Callable[[str], bool]
    """Whether a message to a platform is a request that waits for its one reply."""
    cut: Callable[[str, str], Sequence[str]]
    """Cuts a text into the messages of a platform."""
    hints: Callable[[str], str]
    post: Callable[[str, SessionKey, str], Awaitable[None]]
    """Sends a message under a unique name to any chat."""
    home_chat: SessionKey | None
    sources: Sequence[str]
    draining: Callable[[], bool]
    """Whether no new turn may begin, because the gateway is about to restart."""


class SessionWorker:
    """The work on the messages of one chat. See `Worker`.

    Give it messages with `arrived`; `run` works on them until none has come for a while.
    """

    def __init__(self, shared: Shared, key: SessionKey) -> None:
        self.key = key
        self._shared = shared
        self._one_reply = shared.one_reply(key.platform)
        ask = None if self._one_reply else self._ask
        self._surface = PlatformSurface(shared.config.gateway.verbose, self._acts, ask, self._send)
        self._answers = PlatformSurface("off", self._acts, ask, self._send)
        self._arrived: deque[Row] = deque()
        self._came = anyio.Event()
        self._waiting: deque[tuple[Row, Typed]] = deque()
        self._changed = anyio.Event()
        self._row: Row | None = None
        self._reading: Row | None = None
        self._talk: Talk | None = None
        self._question: _Question | None = None
        self._again: Typed | None = None
        self._slot: anyio.CancelScope | None = None
        self._since = 0.0
        self._holds = False
        self._telling = False
        self.is_leaving = False
        """Whether it ends as soon as it is idle."""
        self.last = time.monotonic()
        """When a message arrived or was answered last, by `time.monotonic`."""

    def arrived(self, row: Row) -> None:
        """Takes a message from the inbox."""
        self._arrived.append(row)
        self._came.set()

    def left(self) -> list[Row]:
        """The messages that it has not answered, once it has ended."""
        waiting = (row for row, _ in self._waiting)
        rows = [*filter(None, (self._row,)), *waiting, *filter(None, (self._reading,)), *self._arrived]
        self._row = self._reading = None
        self._waiting.clear()
        self._arrived.clear()
        return rows

    async def count_try(self) -> None:
        """Counts a try for the message at which it failed unexpectedly, and gives the message up after too many. One
        that was begun is counted already."""
        if (row := self._reading or (self._arrived[0] if self._arrived and not self._row else None)) is None:
            return
        counted = row._replace(tries=row.tries + 1)
        if given_up := counted.tries >= _MOST_TRIES:
            await self._finish(row, (_FAILED,))
        else:
            await self._shared.store.call(self._shared.store.tried, row.number)
        if self._reading:
            self._reading = None if given_up else counted
        elif given_up:
            self._arrived.popleft()
        else:
            self._arrived[0] = counted

    def leave(self) -> None:
        """Lets it end as soon as it is idle."""
        self.is_leaving = True
        self._changed.set()

    async def judge(self, turn: TurnId, *, good: bool | None) -> bool:
        """Records a verdict on a turn. False if its session is not the one that is open."""
        if self._talk is None or (chat := self._talk.context.chat).session.id != turn.session:
            return False
        await chat.conversation.judge(turn, good=good)
        return True

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits for it."""
        return not (self._arrived or self._reading or self._waiting or self._row)

    @property
    def is_busy(self) -> bool:
        """Whether a message is being worked on, or its answer is being stored."""
        return self._row is not None or self._reading is not None

    @property
    def working_seconds(self) -> float | None:
        """See `Worker`. A turn that waits for others to end is under way, too."""
        if self._slot is not None:
            return time.monotonic() - self._since
        return self._talk.working_seconds if self._talk else None

    @property
    def queued(self) -> Sequence[str]:
        """See `Worker`."""
        return [row.text for row, _ in self._waiting]

    def queue(self, job: Typed) -> None:
        """See `Worker`: the message with the command waits, as what it queues."""
        self._again = job

    def stop(self) -> None:
        """See `Worker`."""
        dropped = [row for row, _ in self._waiting]
        self._waiting.clear()
        if dropped:
            for row in dropped:
                self._shared.store.finish([row.number], self._pieces(row, ("dropped by /stop",) * self._one_reply))
            self._shared.outgoing(self.key.platform)
            self._surface.reply(f"dropped: {len(dropped)} waiting {'message' if len(dropped) == 1 else 'messages'}")
        if self._slot is not None:
            self._slot.cancel()
        elif self._talk:
            self._talk.interrupt()

    async def run(self) -> None:
        """Works until it has been idle for `gateway.idle_minutes`. Failures are reported to the person."""
        try:
            async with self._open() as chat, anyio.create_task_group() as group:
                self._talk = Talk(chat, self._surface, "gateway", self)
                group.start_soon(self._read)
                group.start_soon(self._watch, chat)
                await self._work(chat)
                group.cancel_scope.cancel()
        except* (ConfigError, InfraError, OSError) as failures:
            await self._failed(_first(failures))
        finally:
            self._talk = None

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[LiveChat]:
        shared, key = self._shared, self.key
        config = shared.config
        place = Place(key.platform, key.chat_type or "dm")
        knowledge = await anyio.to_thread.run_sync(partial(HomeKnowledge, shared.home, config, place))
        hint = shared.hints(key.platform)
        with closing(knowledge):
            jobs = JobProposals(shared.home, config.user.timezone, key)
            opening = partial(open_chat, sources=shared.sources, hint=hint, jobs=jobs)
            async with opening(config, knowledge, shared.sessions, self._surface, key) as chat:
                stored = await anyio.to_thread.run_sync(self._stored)
                await (chat.resume(stored) if stored else chat.begin())
                self._surface.taken()
                yield chat

    def _stored(self) -> SessionInfo | None:
        """The session to go on with, None for a new one. It is the one that a command chose, which may be held
        elsewhere, or else the latest of this chat."""
        sessions = self._shared.sessions
        if not (id := self._chosen()):
            return next(iter(sessions.latest(1, key=self.key)), None)
        try:
            return sessions.load(id)
        except ConfigError:  # a new one without an answer, which was deleted
            return None

    def _chosen(self) -> str:
        """The id of the session that a command chose last; "" if none did."""
        return self._shared.store.fact(f"session {self.key}")

    async def _read(self) -> None:
        """Answers what needs not wait, and lines up the rest."""
        assert self._talk is not None
        while True:
            while not self._arrived:
                self._came = anyio.Event()
                await self._came.wait()
            self._reading = row = self._arrived.popleft()
            await self._taken(row)
            self._reading = None
            self.last = time.monotonic()
            self._changed.set()

    async def _taken(self, row: Row) -> None:
        assert self._talk is not None
        if self._question and not row.text.startswith("/"):
            self._question.answer(row)
            await self._finish(row, ())
            return
        found = self._talk.registry.read(row.text, self._talk.context.chat.library.skills)
        if isinstance(found, Unknown):
            await self._finish(row, (found.told,))
        elif found.command and found.command.busy == "now":
            await self._at_once(row, found.command, found.text)
        elif found.command and found.command.busy == "refuse" and self._row is not None:
            await self._finish(row, (f"/{found.command.name} cannot run while I work; /stop ends the turn",))
        else:
            self._wait(row, found)

    async def _at_once(self, row: Row, command: Command, text: str) -> None:
        assert self._talk is not None
        try:
            await self._talk.now(command, text, self._answers)
        except Exception as error:  # it ends neither the chat nor the turn under way
            _log.error("/%s failed: %s", command.name, type(error).__name__)
            known = isinstance(error, HermesLabError | OSError)
            self._answers.error(f"error: {' '.join(str(error).split()) if known else f'/{command.name} failed'}")
        said, again, self._again = self._answers.taken(), self._again, None
        if again is None:
            await self._finish(row, said)
            return
        line = f"/{again.command.name} {again.text}".strip() if again.command else f"{'/' * again.literal}{again.text}"
        await self._shared.store.call(self._shared.store.requeue, row.number, line)
        self._wait(row._replace(text=line), again)

    def _wait(self, row: Row, job: Typed) -> None:
        self._waiting.append((row, job))
        self._changed.set()

    async def _work(self, chat: LiveChat) -> None:
        while not self._shared.draining():
            while not self._waiting:
                self._changed = anyio.Event()
                if (left := self._idle_seconds(chat)) <= 0 and self.is_idle and not self._telling:
                    return
                # A background command may end at any time.
                with anyio.move_on_after(_WATCH_SECONDS if left == math.inf else max(left, _WATCH_SECONDS)):
                    await self._changed.wait()
                if self._shared.draining():
                    return
            row, job = self._waiting.popleft()
            self._row = row
            if row.state == "running" and (told := await self._recovered(row, job)) is not None:
                await self._finish(row, told)
            else:
                await self._do(chat, row, job)
            self._row = None
            self.last = time.monotonic()

    def _idle_seconds(self, chat: LiveChat) -> float:
        """How long it stays open if nothing comes. Background commands keep it open."""
        if any(each.status == "running" for each in chat.context.state(Background).processes.values()):
            return math.inf
        return 0 if self.is_leaving else self.last + 60 * self._shared.config.gateway.idle_minutes - time.monotonic()

    async def _do(self, chat: LiveChat, row: Row, job: Typed) -> None:
        assert self._talk is not None
        await self._catch_up(chat)
        store, session = self._shared.store, chat.session
        await store.call(store.begin, row.number, session.id, session.length)
        self._row = row._replace(state="running", session=session.id, length=session.length, tries=row.tries + 1)
        if not await self._has_slot():
            await self._finish(row, (*self._surface.taken(), "interrupted; send the message again"))
            return
        try:
            await self._talk.whole(job if job.command else self._said(row, job))
        finally:
            self._release()
        # Without a choice the latest session goes on, so that most chats need no fact.
        if chat.session.id != (await anyio.to_thread.run_sync(self._chosen) or session.id):
            await store.call(store.set_fact, f"session {self.key}", chat.session.id)
        turn = chat.conversation.last_turn if self._surface.answered else None
        await self._finish(row, self._surface.taken(), str(turn or ""))

    async def _catch_up(self, chat: LiveChat) -> None:
        """Reads the session again if it went on elsewhere, such as at the terminal; if it was deleted, a new one
        begins."""
        sessions = self._shared.sessions
        try:
            await anyio.to_thread.run_sync(sessions.check, chat.session)
        except ConfigError:
            try:
                stored = await anyio.to_thread.run_sync(sessions.load, chat.session.id)
            except ConfigError:
                await chat.begin()
            else:
                await chat.resume(stored)

    async def _has_slot(self) -> bool:
        """Waits until one more turn may be under way; False if the person stops it before."""
        self._since = time.monotonic()
        try:
            with anyio.CancelScope() as self._slot:
                await self._shared.working.acquire_on_behalf_of(self)
                self._holds = True
                return True
            return False
        finally:
            self._slot = None

    def _release(self) -> None:
        if self._holds:
            self._holds = False
            self._shared.working.release_on_behalf_of(self)

    def _said(self, row: Row, job: Typed) -> Typed:
        """The message for the model; in a group, with its sender."""
        job = job._replace(typed=job.text)
        if not job.literal and (loaded := _SKILL.match(job.text)):
            rest = job.text[loaded.end() :]
            return job._replace(text=f"{loaded[0]}{self._by(row, rest)}" if rest else job.text)
        return job._replace(text=self._by(row, job.text))

    def _by(self, row: Row, text: str) -> str:
        """The text for the model; in a group, with its sender."""
        if self.key.chat_type in ("", "dm"):
            return text
        return attributed(text, self._shared.ids(row.platform, row.sender.id), row.sender.name)

    async def _recovered(self, row: Row, job: Typed) -> Sequence[str] | None:
        """What to tell about a message that was worked on when the daemon ended; None: it is safe to begin again."""
        if job.command:
            return (f"I was restarted while /{job.command.name} ran. /history shows where we are.",)
        try:
            session = await anyio.to_thread.run_sync(self._shared.sessions.load, row.session)
        except ConfigError:  # it had no answer yet, and was deleted
            session = None
        if session and session.length > row.length:
            last = session.messages[-1]
            answer = split_reasoning(last.content).answer if last.role == "assistant" and not last.tool_calls else ""
            return (answer or f"{_CUT} The partial turn is saved: write again to go on.",)
        if row.acted or row.tries >= _MOST_TRIES:
            return (f"{_CUT} Send it again to have it done.",)
        return None

    async def _finish(self, row: Row, texts: Iterable[str], turn: str = "") -> None:
        shared = self._shared
        told = [text for text in texts if text.strip()]
        if self._one_reply:
            told = ["\n\n".join(told) or _NOTHING]
        await shared.store.call(shared.store.finish, [row.number], self._pieces(row, told, turn))
        shared.outgoing(self.key.platform)

    def _pieces(self, row: Row, texts: Iterable[str], turn: str = "") -> list[Piece]:
        cut = [piece for text in texts for piece in self._shared.cut(self.key.platform, text)]
        return [Piece(self.key, text, row.message, turn) for text in cut]

    async def say(self, name: str, text: str) -> None:
        """Sends a message of its own; one of a name is sent once."""
        await self._shared.post(name, self.key, text)

    async def _watch(self, chat: LiveChat) -> None:
        """Tells when a background command has ended."""
        notices = Notices(self._shared.config.display.background_process_notifications)
        number = 0
        while True:
            await anyio.sleep(_WATCH_SECONDS)
            if self.working_seconds is not None:
                continue
            self._telling = True
            try:
                for notice in await notices.new(chat.context):
                    if self._one_reply:
                        continue
                    number += 1
                    self.last = time.monotonic()
                    await self.say(f"notice {chat.session.id} {time.time_ns()} {number}", f"[{notice}]")
            except SandboxError:
                return
            finally:
                self._telling = False

    async def _ask(self, question: str, choices: tuple[str, ...]) -> str:
        if self._row is None:
            raise ToolError("no user can be asked now; decide yourself, and say what you assumed")
        lines = [question, *(f"{number}. {choice}" for number, choice in enumerate(choices, 1))]
        self._question = _Question()
        try:
            await self.say(f"question {self._row.number} {time.time_ns()}", "\n".join(lines))
            self._release()  # a person may answer tomorrow; other chats go on
            row = await self._question.wait()
            if not self._holds:
                await self._shared.working.acquire_on_behalf_of(self)
                self._holds = True
            answer = chosen(row.text.strip(), choices)
            return answer if answer in choices else self._by(row, answer)
        finally:
            self._question = None

    async def _send(self, text: str, to: str) -> None:
        """See `ToolContext.send`."""
        name = f"sent {self.key} {time.time_ns()}"
        if to == "chat":
            if self._one_reply:
                raise ToolError("this chat only takes your final answer; put it there, or send it to the home channel")
            await self.say(name, text)
        elif self._shared.home_chat is None:
            raise ToolError("there is no home channel (gateway.home); send it to this chat")
        else:
            await self._shared.post(name, self._shared.home_chat, text)

    def _acts(self) -> None:
        if self._row and not self._row.acted:
            self._row = self._row._replace(acted=True)
            self._shared.store.acted(self._row.number)

    async def _failed(self, error: BaseException) -> None:
        """Tells the person whose message was under way, or would have been next."""
        rows = self.left()
        for each in rows[1:]:
            self.arrived(each)
        if rows:
            self._row = rows[0]
            await self._finish(rows[0], (f"error: {' '.join(str(error).split())}",))
            self._row = None


class _Question:
    """A question to the person, whose next message is the answer."""

    def __init__(self) -> None:
        self._row: Row | None = None
        self._given = anyio.Event()

    def answer(self, row: Row) -> None:
        """Gives the message that answers it."""
        self._row = row
        self._given.set()

    async def wait(self) -> Row:
        """The message that answers it, once there is one."""
        await self._given.wait()
        assert self._row is not None
        return self._row


def _first(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    first: BaseException = failures
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return first
