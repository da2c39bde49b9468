"""Works on what a person types in a chat: commands at once or in turn, and one message after another."""

import time
from collections import deque
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Literal, Protocol

import anyio
import anyio.to_thread

from hermes_lab.chat.conversation import Turn
from hermes_lab.chat.live import LiveChat
from hermes_lab.chat.reviews import ReviewLog
from hermes_lab.chat.surface import Surface
from hermes_lab.commands.command import Command, CommandContext, Reply, Worker
from hermes_lab.commands.registry import Registry, Typed, Unknown
from hermes_lab.errors import ConfigError, ModelError, PromptTooLong
from hermes_lab.sessions import Session, hermes_home
from hermes_lab.types import EpisodeError, Review

_LEFT_OUT = EpisodeError("interrupted", "Ctrl-C")


class Display(Surface, Protocol):
    """Where turns are shown, too."""

    def turn(self, session: Session, turn: Turn) -> None:
        """Shows the end of a turn."""
        ...

    def reply(self, text: str) -> None:
        """Shows what a command answers."""
        ...

    def error(self, text: str) -> None:
        """Shows a failure."""
        ...

    def working(self, what: str) -> AbstractContextManager[None]:
        """Shows that the agent works."""
        ...


class Talk:
    """Works on what the user types. See `Worker`.

    `worker` is who commands see at work, if that is not this object.
    """

    def __init__(
        self,
        chat: LiveChat,
        display: Display,
        place: Literal["terminal", "gateway"] = "terminal",
        worker: Worker | None = None,
    ) -> None:
        self._chat = chat
        self._display = display
        self._worker = worker or self
        self._registry = Registry(place)
        self._waiting: deque[Typed] = deque()
        self._arrived = anyio.Event()
        self._since: float | None = None
        self._scope: anyio.CancelScope | None = None
        self.quits = False

    @property
    def context(self) -> CommandContext:
        """What commands work on."""
        return CommandContext(self._chat, self._worker, self._registry)

    @property
    def registry(self) -> Registry:
        """The commands."""
        return self._registry

    @property
    def working_seconds(self) -> float | None:
        """See `Worker`."""
        return None if self._since is None else time.monotonic() - self._since

    @property
    def queued(self) -> Sequence[str]:
        """See `Worker`."""
        return [f"/{job.command.name} {job.text}".strip() if job.command else job.text for job in self._waiting]

    def queue(self, job: Typed) -> None:
        """See `Worker`."""
        self._waiting.append(job)
        self._arrived.set()

    def interrupt(self) -> bool:
        """Stops the current turn. Returns False if there is none."""
        if self._scope is None:
            return False
        self._scope.cancel()
        return True

    def stop(self) -> None:
        """See `Worker`."""
        if dropped := self.queued:
            self._display.note("dropped: " + "; ".join(dropped))
        self._waiting.clear()
        self.interrupt()

    async def typed(self, line: str) -> None:
        """Handles a line: runs a command that needs not wait, and queues the rest."""
        if not line.strip():
            return
        found = self._registry.read(line, self._chat.library.skills)
        if isinstance(found, Unknown):
            self._display.reply(found.told)
        elif (command := found.command) and command.busy == "now":
            await self.now(command, found.text)
        elif command and command.busy == "refuse" and self._since is not None:
            self._display.reply(f"/{command.name} cannot run while the agent works; /stop ends the turn")
        else:
            if self._since is not None:
                self._display.note(f"queued; {len(self._waiting) + 1} waiting")
            self.queue(found)

    async def work(self) -> None:
        """Works on what is queued, until a command ends the chat."""
        while not self.quits:
            while not self._waiting:
                self._arrived = anyio.Event()
                await self._arrived.wait()
            await self.do(self._waiting.popleft())

    async def one(self, line: str) -> int:
        """Handles a single line; returns the exit code."""
        found = self._registry.read(line, self._chat.library.skills)
        if isinstance(found, Unknown):
            raise ConfigError(f"PROMPT: {found.told}")
        if found.command and found.command.busy == "now":
            work = self._command(found.command, found.text)
            return await self._shown(f"/{found.command.name}", work, turn=False) or await self._drain()
        return await self.whole(found)

    async def whole(self, job: Typed) -> int:
        """Works on one job, and on the message that a command sends; returns the exit code."""
        return await self.do(job) or await self._drain()

    async def _drain(self) -> int:
        code = 0
        while self._waiting and not code:  # a command has sent a message
            code = await self.do(self._waiting.popleft())
        return code

    async def do(self, job: Typed) -> int:
        """Works on one job until it ends or is interrupted; returns the exit code for it alone."""
        self._since = time.monotonic()
        try:
            if job.command:
                what = f"/{job.command.name}"
                return await self._shown(what, self._command(job.command, job.text), turn=False)
            if code := await self._shown("working", self._answer(job)):
                return code
            with self._display.working("reviewing"):
                await self._review()
            return 0
        finally:
            self._since = None

    async def _command(self, command: Command, text: str, display: Display | None = None) -> None:
        reply: Reply = await command.run(self.context, text)
        if reply.text:
            (display or self._display).reply(reply.text)
        if reply.send:
            self._waiting.appendleft(Typed(None, reply.send, reply.literal))
            self._arrived.set()
        self.quits |= reply.quit

    async def now(self, command: Command, text: str, display: Display | None = None) -> None:
        """Runs a command that needs not wait, and shows what it answers on `display`."""
        display = display or self._display
        try:
            await self._command(command, text, display)
        except (ConfigError, ModelError) as error:
            display.error(f"error: {error}")

    @contextmanager
    def _interruptible(self) -> Iterator[anyio.CancelScope]:
        with anyio.CancelScope() as self._scope:
            try:
                yield self._scope
            finally:
                self._scope = None

    async def _answer(self, job: Typed) -> None:
        turn = await self._chat.conversation.submit(job.text, literal=job.literal, typed=job.typed)
        self._display.turn(self._chat.session, turn)

    async def _shown(self, what: str, work: Coroutine[Any, Any, None], *, turn: bool = True) -> int:
        """Does the work, called `what`, until it ends or is interrupted, and then shows a failure; returns the exit
        code.

        `turn`: it is a message, and an interruption says what became of it."""
        before = self._chat.session.length
        try:
            with self._display.working(what), self._interruptible() as scope:
                await work
            interrupted = scope.cancelled_caught
        except ConfigError as error:
            self._display.error(f"error: {error}")
            return 2
        except ModelError as error:
            too_long = isinstance(error, PromptTooLong)
            outcome = "turn discarded; shorten it, or begin a /new session" if too_long else self._outcome(before)
            self._display.error(f"error: {' '.join(str(error).split())} ({outcome})")
            return 3
        if interrupted:
            self._display.reply(f"interrupted; {self._outcome(before)}" if turn else "interrupted")
            return 130
        return 0

    async def _review(self) -> None:
        """Runs a review if one is due. A failed review leaves the answer intact; one skipped by Ctrl-C is logged, so
        that it is not due again at once."""
        conversation = self._chat.conversation
        log = ReviewLog(hermes_home(), conversation.session.id)
        if not conversation.wants_review(log.last()):
            return
        self._display.note("reviewing this session; Ctrl-C skips the review")
        review = Review(error=_LEFT_OUT)
        with self._interruptible():
            review = await conversation.review()
        await anyio.to_thread.run_sync(log.append, review, conversation.session.length)
        self._display.note(_learned(review))

    def _outcome(self, before: int) -> str:
        """What happened to a message whose turn did not finish."""
        if self._chat.session.length > before:
            return "the partial turn is saved"
        return "turn discarded; send the message again"


def _learned(review: Review) -> str:
    if review.error is _LEFT_OUT:
        return "review skipped"
    if review.error:
        return f"the review failed: {review.error.message}"
    saved = [f"{write.action} {write.name}" for write in review.writes]
    saved += [f"{write.action} a note in {write.target}" for write in review.memory]
    return f"learned: {', '.join(saved)}" if saved else "nothing to save"
