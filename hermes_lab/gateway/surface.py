"""What a turn shows on a chat platform: it is collected, and becomes the reply."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hermes_lab.chat.conversation import Turn
from hermes_lab.chat.endings import why_no_answer
from hermes_lab.config.home import Verbosity
from hermes_lab.protocols import Delta
from hermes_lab.sessions import Session
from hermes_lab.text.clip import clip
from hermes_lab.tools.registry import Ask, Send
from hermes_lab.types import ToolCall, ToolResult

_CALL_CHARS = 200


class PlatformSurface:
    """See `hermes_lab.commands.talk.Display`. `acts` is called before a tool runs; `ask` asks the person (None: nobody
    can be asked), and `send` sends a message of its own. `answered`: what was collected has the answer of a turn."""

    def __init__(self, verbosity: Verbosity, acts: Callable[[], None], ask: Ask | None, send: Send) -> None:
        self.verbosity: Verbosity = verbosity
        self.stream: Callable[[Delta], None] | None = None
        self.ask = ask
        self.send = send
        self._acts = acts
        self._texts: list[str] = []
        self.answered = False
        self._calls: list[str] = []

    def taken(self) -> list[str]:
        """What was collected, and nothing is from now on."""
        texts = ["\n".join(self._calls), *self._texts] if self._calls else self._texts
        self._texts, self._calls, self.answered = [], [], False
        return texts

    def note(self, text: str) -> None:
        """See `Surface.note`: shown unless the chat is quiet."""
        if self.verbosity != "off":
            self._texts.append(text)

    def reply(self, text: str) -> None:
        """See `Display.reply`."""
        self._texts.append(text)

    def error(self, text: str) -> None:
        """See `Display.error`."""
        self._texts.append(text)

    def text(self, delta: Delta) -> None:
        """See `Surface.text`."""
        if self.stream:
            self.stream(delta)

    def call(self, call: ToolCall) -> None:
        """See `Surface.call`."""
        self._acts()
        if self.verbosity != "off":
            arguments = call.raw or json.dumps(call.arguments, ensure_ascii=False)
            self._calls.append(clip(f"{call.name} {' '.join(arguments.split())}", _CALL_CHARS).text)

    def result(self, call: ToolCall, result: ToolResult) -> None:
        """See `Surface.result`: shows why a call failed."""
        del call
        if self.verbosity != "off" and not result.ok:
            self._calls.append(f"  error: {json.loads(result.content)['error']}".partition("\n")[0])

    def turn(self, session: Session, turn: Turn) -> None:
        """See `Display.turn`."""
        del session
        self.answered = turn.answer is not None
        self._texts += filter(None, (turn.answer, why_no_answer(turn)))

    @contextmanager
    def working(self, what: str) -> Iterator[None]:
        """See `Display.working`: shows nothing."""
        del what
        yield
