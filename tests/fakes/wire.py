"""A chat platform in this process, for tests of the gateway."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import anyio

from hermes_lab.gateway.daemon import Gateway
from hermes_lab.gateway.platform import Accept, Inbound, Judged, Outbound, Sender, Services
from hermes_lab.gateway.split import Limit

Start = Callable[..., AbstractAsyncContextManager[Gateway]]
"""Runs a gateway on platforms."""


class Wire:
    """See `Platform`. `sent` are the messages that it took. `failures` are raised by the next attempts to send or
    connect, in order; None lets one pass."""

    name = "wire"
    hint = "This is a test."
    idempotent = False

    def __init__(self, name: str = "wire", most: int = 200) -> None:
        self.name = name
        self.limit = Limit(most, "utf16")
        self.sent: list[Outbound] = []
        self.refusals: list[Exception] = []
        self.failures: list[Exception | None] = []
        self.slow = 0.0
        self._accept: Accept | None = None
        self._number = 0

    @asynccontextmanager
    async def connect(self, services: Services) -> AsyncIterator["Wire"]:
        del services
        if self.refusals:
            raise self.refusals.pop(0)
        yield self

    async def receive(self, accept: Accept) -> None:
        self._accept = accept
        await anyio.sleep_forever()

    async def send(self, message: Outbound) -> str:
        await anyio.sleep(self.slow)
        if self.failures and (failure := self.failures.pop(0)):
            raise failure
        self.sent.append(message)
        return f"m{len(self.sent)}"

    async def say(self, text: str, chat: str = "1", sender: str = "ann", **fields: object) -> str:
        """A message arrives; returns its update id."""
        self._number += 1
        update = str(fields.pop("update", self._number))
        who = Sender(sender, str(fields.pop("shown", sender.title())))
        event = Inbound(update=update, chat=chat, sender=who, text=text, message=f"in{update}", **fields)  # type: ignore[arg-type]
        await self.event(event)
        return update

    async def event(self, event: Inbound | Judged) -> None:
        while self._accept is None:  # noqa: ASYNC110
            await anyio.sleep(0.01)
        await self._accept(event)

    async def replies(self, count: int, chat: str = "1", seconds: float = 20) -> list[str]:
        """The texts sent to a chat, once there are so many."""
        with anyio.fail_after(seconds):
            while len(found := [each.text for each in self.sent if each.chat == chat]) < count:  # noqa: ASYNC110
                await anyio.sleep(0.01)
        return found
