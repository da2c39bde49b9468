"""The services of a gateway in memory, for tests of a platform's connection alone."""

from collections.abc import Sequence

import anyio

from hermes_lab.gateway.platform import Inbound, Judged
from hermes_lab.sessions import SessionKey


class Desk:
    """See `Services`. `events` are what was accepted; `failures` are raised instead of accepting."""

    commands: Sequence[tuple[str, str]] = ()

    def __init__(self) -> None:
        self.facts: dict[str, str] = {}
        self.posts: list[tuple[str, SessionKey, str]] = []
        self.events: list[Inbound | Judged] = []
        self.failures: list[Exception] = []

    async def fact(self, name: str) -> str:
        return self.facts.get(name, "")

    async def set_fact(self, name: str, value: str) -> None:
        self.facts[name] = value

    async def may_write(self, sender: str) -> bool:
        return not sender.startswith("@eve")

    async def post(self, name: str, place: SessionKey, text: str) -> None:
        self.posts.append((name, place, text))

    async def accept(self, event: Inbound | Judged) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.events.append(event)

    async def texts(self, last: str) -> list[str]:
        """The texts that were accepted, once there is that one."""
        with anyio.fail_after(60):
            while last not in (found := [each.text for each in self.events if isinstance(each, Inbound)]):  # noqa: ASYNC110
                await anyio.sleep(0.02)
        return found

    async def verdicts(self, count: int) -> list[Judged]:
        """Waits for that many verdicts, and returns them."""
        with anyio.fail_after(60):
            while len(found := [each for each in self.events if isinstance(each, Judged)]) < count:  # noqa: ASYNC110
                await anyio.sleep(0.02)
        return found
