"""The read-eval-print loop of a chat."""

from collections.abc import Coroutine

import anyio.to_thread

from hermes_lab.chat.conversation import Conversation
from hermes_lab.chat.reviews import ReviewLog
from hermes_lab.errors import ModelError
from hermes_lab.runners import output
from hermes_lab.runners.terminal import Terminal
from hermes_lab.sessions import hermes_home
from hermes_lab.skills.session import SkillSession
from hermes_lab.types import EpisodeError, Review

_HELP = "/skill-name PROMPT   /skills   /compress   /exit   Ctrl-C stops a turn"
_LEFT_OUT = EpisodeError("interrupted", "Ctrl-C")


class Repl:
    """Passes the user's lines to a conversation and prints what comes back."""

    def __init__(self, conversation: Conversation, skills: SkillSession, terminal: Terminal) -> None:
        self._conversation = conversation
        self._skills = skills
        self._terminal = terminal

    async def one(self, prompt: str) -> int:
        """Handles one message; returns the exit code."""
        return await self._do(prompt)

    async def loop(self) -> int:
        """Reads lines until the user quits; returns the exit code."""
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
        """Handles one line; returns the exit code for this line alone."""
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
        """Runs `work` until it ends or Ctrl-C. Reports a model failure or an interruption; returns the exit code."""
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
        self._terminal.note("earlier turns are now summarised" if changed else "nothing to compress")

    async def _review(self) -> None:
        """Runs a review if one is due. A failed review leaves the answer intact; one skipped by Ctrl-C is logged, so
        that it is not due again at once."""
        session = self._conversation.session
        log = ReviewLog(hermes_home(), session.id)
        review = Review(error=_LEFT_OUT)
        with self._terminal.interruptible():
            if not self._conversation.wants_review(log.last()):
                return
            self._terminal.note("reviewing this session; Ctrl-C skips the review")
            review = await self._conversation.review()
        await anyio.to_thread.run_sync(log.append, review, session.length)
        self._terminal.note(_learnt(review))

    def _outcome(self, before: int) -> str:
        """What happened to a message whose turn did not finish."""
        if self._conversation.session.length > before:
            return "the partial turn is saved"
        return "turn discarded; send the message again"


def _learnt(review: Review) -> str:
    if review.error is _LEFT_OUT:
        return "review skipped"
    if review.error:
        return f"the review failed: {review.error.message}"
    saved = [f"{write.action} {write.name}" for write in review.writes]
    saved += [f"{write.action} a note in {write.target}" for write in review.memory]
    return f"learned: {', '.join(saved)}" if saved else "nothing to save"
