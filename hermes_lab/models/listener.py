"""Tracks the streamed text, so that it can be retracted."""

from collections.abc import Iterable

from hermes_lab.models.reasoning import split_reasoning
from hermes_lab.protocols import Delta, OnText
from hermes_lab.types import Message


class Listener:
    """Passes pieces on to `on_text`, without whitespace at the ends of the text and of the reasoning.

    `text` and `reasoning` are what was told since the last restart.
    """

    def __init__(self, on_text: OnText) -> None:
        self._on_text = on_text
        self.text = self.reasoning = ""
        self._held = {"text": "", "reasoning": ""}  # whitespace that may be at the end

    def tell(self, delta: Delta) -> None:
        """Tells a piece. A restart is passed on only if there is something to take back."""
        if delta.kind == "restart":
            self.restart()
            return
        told = self.text if delta.kind == "text" else self.reasoning
        piece = self._held[delta.kind] + delta.text if told else delta.text.lstrip()
        shown = piece.rstrip()
        self._held[delta.kind] = piece[len(shown) :]
        if not shown:
            return
        if delta.kind == "text":
            self.text += shown
        else:
            self.reasoning += shown
        self._on_text(Delta(delta.kind, shown))

    def restart(self) -> None:
        """Takes back everything that was told."""
        was_told = self.text or self.reasoning
        self.text = self.reasoning = ""
        self._held = {"text": "", "reasoning": ""}
        if was_told:
            self._on_text(Delta("restart"))

    def take_for_reasoning(self, more: str) -> None:
        """Tells the text so far, and what follows it, again as reasoning."""
        thought = f"{self.reasoning}\n{self.text}{self._held['text']}{more}"
        self.restart()
        self.tell(Delta("reasoning", thought))

    def settle(self, answer: str, reasoning: str) -> None:
        """Tells what is missing of a complete reply; after a restart, if more than the answer was told as text."""
        if (missing := _rest(answer, self.text)) is None:
            self.restart()
            missing = answer
        self._held["text"] = ""  # `missing` has it
        if not self.reasoning:
            self.tell(Delta("reasoning", reasoning))
        self.tell(Delta("text", missing))


def answer_of(content: str, prompts: Iterable[Message]) -> str:
    """The content of a reply to `prompts` without its reasoning, as in `Trajectory.final_response`."""
    asked = (message.content for message in prompts if message.role in ("system", "user"))
    return split_reasoning(content, asked).answer


def _rest(whole: str, told: str) -> str | None:
    """What follows `told` in `whole`, whatever the whitespace in both; None if `whole` begins otherwise."""
    if whole.startswith(told):
        return whole[len(told) :]
    at = 0
    for word in told.split():
        for char in word:
            while at < len(whole) and whole[at].isspace():
                at += 1
            if not whole.startswith(char, at):
                return None
            at += 1
    return whole[at:]
