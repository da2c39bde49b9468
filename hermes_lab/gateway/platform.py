"""What a chat platform is to the gateway: where messages come from, and where replies go."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

import msgspec

from hermes_lab.gateway.split import Limit
from hermes_lab.sessions import SessionKey

CLIENT = "client"
"""The sender of what a platform has verified by a secret of its own, such as a request with a key."""
ChatType = Literal["dm", "group", "channel", "thread"]


class Sender(NamedTuple):
    """Who wrote a message: the platform's own id, which nobody can choose, and the name that is shown, which anybody
    can."""

    id: str
    name: str = ""


class Inbound(msgspec.Struct, frozen=True, kw_only=True):
    """A message that has arrived.

    `update` is the platform's id of the event: the same event has the same one, however often it is delivered. `chat`,
    `chat_type` and `thread` say where it was written, by the platform's ids. In a group, `addressed` says whether the
    bot is meant: named, answered, or given a command. `message` is the platform's id of the message, to which replies
    and reactions refer.
    """

    update: str
    chat: str
    sender: Sender
    text: str
    chat_type: ChatType = "dm"
    thread: str = ""
    addressed: bool = True
    message: str = ""


class Outbound(NamedTuple):
    """A message to send. `key` is the same for each attempt. `again`: an earlier attempt may have arrived."""

    key: str
    chat: str
    thread: str
    text: str
    reply_to: str = ""
    files: Sequence[Path] = ()
    again: bool = False


class Judged(NamedTuple):
    """A reaction to a message of the bot, as a verdict on it; None takes an earlier one back."""

    update: str
    chat: str
    thread: str
    sender: Sender
    message: str
    good: bool | None


class PlatformError(Exception):
    """The platform cannot be reached, or fails; what was under way is tried again later."""


class Unsure(PlatformError):
    """The platform did not answer, and may have taken the message."""


class TryLater(PlatformError):
    """The platform refuses for now: not before `seconds` have passed."""

    def __init__(self, seconds: float, why: str = "rate limit") -> None:
        super().__init__(f"{why}: try again in {seconds:g} s")
        self.seconds = seconds


class Refused(PlatformError):
    """The platform does not know the account, such as for a wrong token."""


class Undeliverable(Exception):
    """This message can never be sent, such as to a chat that the bot has been removed from."""


Accept = Callable[[Inbound | Judged], Awaitable[None]]
"""Takes an event. When it returns, the event is on the disk, and may be acknowledged to the platform."""


class Connection(Protocol):
    """A platform that is connected."""

    async def receive(self, accept: Accept) -> None:
        """Passes on events until it is cancelled. Raises `PlatformError`."""
        ...

    async def send(self, message: Outbound) -> str:
        """Sends a message, and returns the platform's id of it. Raises `PlatformError` and `Undeliverable`."""
        ...


class Services(Protocol):
    """What the gateway does for a platform."""

    @property
    def commands(self) -> Sequence[tuple[str, str]]:
        """The names and summaries of the slash commands."""
        ...

    async def fact(self, name: str) -> str:
        """A value that the platform has stored; "" if there is none."""
        ...

    async def set_fact(self, name: str, value: str, days: float | None = None) -> None:
        """Stores a value, such as where to go on reading; after `days` it may be forgotten."""
        ...

    async def may_write(self, sender: str) -> bool:
        """Whether the user of this platform with that id may write to the agent."""
        ...

    async def post(self, name: str, place: SessionKey, text: str, files: Sequence[Path] = ()) -> None:
        """Sends a message to any chat, of any platform, and then files; one of a name is sent once."""
        ...


class Platform(Protocol):
    """A chat platform.

    `name` is that of its keys and of its section in the configuration. `limit` is what a message may hold. `hint` tells
    the model how its replies are shown there. `idempotent`: a message that is sent again with the same `Outbound.key`
    arrives once. A platform may have an attribute `one_reply = True`: each message is a request that waits for its one
    reply, and nothing else can be sent there. `send_seconds`, if it has that, is how long an attempt to send may take.
    """

    name: str
    limit: Limit
    hint: str
    idempotent: bool

    def connect(self, services: Services) -> AbstractAsyncContextManager[Connection]:
        """Signs in. Raises `PlatformError`, and `Refused` if that is pointless to repeat soon."""
        ...
