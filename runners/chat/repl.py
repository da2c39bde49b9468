"""What is said in a chat: one message, or one after another until the person leaves."""

from collections.abc import Coroutine

import anyio.to_thread

from hermes_lab.errors import ModelError
from hermes_lab.runners import output
from hermes_lab.runners.terminal import Terminal
from hermes_lab.sessions import hermes_home
from hermes_lab.sessions.conversation import Conversation
from hermes_lab.sessions.reviews import ReviewLog
from hermes_lab.skills.session import SkillSession
from hermes_lab.types import EpisodeError, Review

_HELP = "/skill-name what to do   /skills   /compress   /exit   Ctrl-C stops a turn"
_LEFT_OUT = EpisodeError("interrupted", "Ctrl-C")


class Repl:
    """A person at a terminal, and a conversation."""

    def __init__(self, conversation: Conversation, skills: SkillSession, terminal: Terminal) -> None:
        self._conversation = conversation
        self._skills = skills
        self._terminal = terminal

    async def one(self, prompt: str) -> int:
        """One message; the exit code."""
        return await self._do(prompt)

    async def loop(self) -> int:
        """Line after line; the exit code."""
        while not self._terminal.terminated:
            try:
                line = self._terminal.read("> ")
            except (EOFError, KeyboardInterrupt):
                output.say("")
                break
            if line.strip() == "/exit":
                break
            if line.strip():
                await self._do(line)
        return 130 if self._terminal.terminated else 0

    async def _do(self, line: str) -> int:
        """What a line asks for; the exit code, were it the only one."""
        match line.strip():
            case "/help":
                self._terminal.note(_HELP)
            case "/skills":
                self._terminal.note(", ".join(self._skills.library.listed) or "no skills yet")
            case "/compress":
                return await self._attempt(self._compress())
            case _:
                if code := await self._attempt(self._answer(line)):
                    return code
                await self._review()
        return 0

    async def _attempt(self, work: Coroutine[None, None, None]) -> int:
        """Until Ctrl-C at most. Where the model failed, or the person stopped it, what became of it is said."""
        before = self._conversation.session.length
        try:
            with self._terminal.interruptible():
                await work
        except ModelError as error:
            output.say(f"hermes-lab: error: {' '.join(str(error).split())} ({self._outcome(before)})")
            return 3
        if self._terminal.interrupted:
            self._terminal.note(f"interrupted; {self._outcome(before)}")
            return 130
        return 0

    async def _answer(self, line: str) -> None:
        turn = await self._conversation.submit(line)
        self._terminal.turn(self._conversation.session, turn)

    async def _compress(self) -> None:
        changed = await self._conversation.compress()
        self._terminal.note("earlier turns are now a summary" if changed else "nothing was changed")

    async def _review(self) -> None:
        """After an answer, a review where one is due. It never harms what was answered; one that Ctrl-C leaves out is
        not asked for again at once."""
        session = self._conversation.session
        log = ReviewLog(hermes_home(), session.id)
        review = Review(error=_LEFT_OUT)
        with self._terminal.interruptible():
            if not self._conversation.wants_review(log.last()):
                return
            self._terminal.note("looking back on this session; Ctrl-C leaves it out")
            review = await self._conversation.review()
        await anyio.to_thread.run_sync(log.append, review, session.length)
        self._terminal.note(_learnt(review))

    def _outcome(self, before: int) -> str:
        """What became of a message whose turn did not end."""
        if self._conversation.session.length > before:
            return "the turn is kept as far as it came"
        return "the message was not sent; give it again"


def _learnt(review: Review) -> str:
    if review.error is _LEFT_OUT:
        return "the review was left out"
    if review.error:
        return f"the review failed: {review.error.message}"
    saved = [f"{write.action} {write.name}" for write in review.writes]
    saved += [f"{write.action} a note in {write.target}" for write in review.memory]
    return f"learnt: {', '.join(saved)}" if saved else "nothing to save"
