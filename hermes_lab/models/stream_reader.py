"""Tells a reply while its bytes are received."""

from collections.abc import Iterable, Sequence

from hermes_lab.config.schema import ModelConfig
from hermes_lab.models.listener import Listener, answer_of
from hermes_lab.models.reasoning import separate_reasoning
from hermes_lab.models.text_filter import ANY_CALL, HERMES_CALL, TextFilter
from hermes_lab.models.wires import Wire
from hermes_lab.models.wires.sse import EventReader
from hermes_lab.protocols import Delta, OnText
from hermes_lab.types import Message
from hermes_lab.types.trajectory import ToolFormat


class StreamReader:
    """The `Receiver` of one reply, which is parsed apart from it: this only shows it.

    In the text format (`hermes`) the caller parses the calls, and has the last word on what the answer is.
    """

    def __init__(self, wire: Wire, config: ModelConfig, tool_format: ToolFormat, on_text: OnText) -> None:
        self._wire = wire
        self._native = tool_format == "native"
        self._calls = (ANY_CALL if config.tool_parser else None) if self._native else HERMES_CALL
        self._listener = Listener(on_text)
        self._begin()

    def receive(self, chunk: bytes) -> None:
        """Tells what the next bytes of the body add."""
        self._tell(self._events.feed(chunk))

    def restart(self) -> None:
        """Takes back what was told, as the request failed and is sent again."""
        self._listener.restart()
        self._begin()

    def finish(self, message: Message, prompts: Sequence[Message]) -> None:
        """Tells what is missing of the complete reply to `prompts`: all of it, if it did not come as a stream."""
        self._tell(self._events.end())
        if not self._is_streamed:
            self._add(Delta("reasoning", separate_reasoning(message.content, message.reasoning)))
            self._add(Delta("text", message.content))
        self._filter.end()
        if self._native:
            self._listener.settle(answer_of(message.content, prompts), message.reasoning)

    def _begin(self) -> None:
        self._events = EventReader()
        self._filter = TextFilter(self._listener, self._calls)
        self._is_streamed = False

    def _tell(self, events: Iterable[object]) -> None:
        for event in events:
            for delta in self._wire.deltas(event):
                self._add(delta)

    def _add(self, delta: Delta) -> None:
        self._is_streamed |= bool(delta.text.strip())
        if delta.kind == "text":
            self._filter.add(delta.text)
        else:
            self._listener.tell(delta)
