"""What a chat needs of the place where it is held: a terminal, or a chat platform."""

from typing import Protocol

from hermes_lab.config.home import Verbosity
from hermes_lab.protocols import Delta
from hermes_lab.tools.registry import Ask, Send
from hermes_lab.types import ToolCall, ToolResult


class Surface(Protocol):
    """Where a chat is held."""

    verbosity: Verbosity

    @property
    def ask(self) -> Ask | None:
        """How tools ask the user a question; None if nobody can be asked."""
        ...

    @property
    def send(self) -> Send | None:
        """How tools send a message; None where there is no chat platform."""
        ...

    def note(self, text: str) -> None:
        """Shows a status line."""
        ...

    def text(self, delta: Delta) -> None:
        """Shows a piece of a reply as it comes."""
        ...

    def call(self, call: ToolCall) -> None:
        """Shows a tool call that starts."""
        ...

    def result(self, call: ToolCall, result: ToolResult) -> None:
        """Shows the result of a tool call."""
        ...
