"""What a slash command is."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from hermes_lab.chat.live import LiveChat

if TYPE_CHECKING:
    from hermes_lab.commands.registry import Registry, Typed

Category = Literal["Session", "Conversation", "Information", "Configuration", "Tools and skills"]
Where = Literal["everywhere", "terminal", "gateway"]
Busy = Literal["now", "after", "refuse"]
"""What happens to a command while the agent works. `now`: it runs at once. `after`: it waits for the end of the turn.
`refuse`: it is refused."""


class Reply(NamedTuple):
    """What a command leads to: a text to show, a message to send to the agent, or the end of the chat. A `literal`
    message loads no skill."""

    text: str = ""
    send: str = ""
    quit: bool = False
    literal: bool = False


class Worker(Protocol):
    """Who works on a chat's messages, one after another."""

    @property
    def working_seconds(self) -> float | None:
        """How long the agent has worked on the current message; None if it does not work."""
        ...

    @property
    def queued(self) -> Sequence[str]:
        """The messages that wait."""
        ...

    def queue(self, job: "Typed") -> None:
        """Adds a message, or a command, to those that wait."""
        ...

    def stop(self) -> None:
        """Stops the current turn and drops the messages that wait."""
        ...


@dataclass(frozen=True)
class CommandContext:
    """What commands work on."""

    chat: LiveChat
    worker: Worker
    registry: "Registry"


Run = Callable[[CommandContext, str], Awaitable[Reply]]
Complete = Callable[[CommandContext], Sequence[str]]


@dataclass(frozen=True)
class Command:
    """A slash command.

    `hint` shows its arguments, as in `[NAME]`. `run` gets what follows the name, without spaces around it, and raises
    `ConfigError` for a mistake, which is shown. `arguments` gives what Tab completes after the name; it may block.
    `details` is what `/help NAME` says beyond the summary.
    """

    name: str
    summary: str
    category: Category
    run: Run
    hint: str = ""
    aliases: tuple[str, ...] = ()
    where: Where = "everywhere"
    busy: Busy = "after"
    arguments: Complete | None = None
    details: str = ""
