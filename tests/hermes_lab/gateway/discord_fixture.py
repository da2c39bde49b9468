"""A connection to the double of Discord, without the rest of the gateway."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import anyio
import pytest
from fakes.discord_api import DiscordApi
from fakes.discord_world import TOKEN

from hermes_lab.config.gateway import DiscordConfig
from hermes_lab.gateway.platform import Inbound, Judged
from hermes_lab.gateway.platforms.discord import DiscordBot, DiscordPlatform
from hermes_lab.sessions import SessionKey


class Facts:
    """See `Services`."""

    commands: Sequence[tuple[str, str]] = (("status", "Says how it goes"),)

    def __init__(self) -> None:
        self.values: dict[str, str] = {}

    async def fact(self, name: str) -> str:
        return self.values.get(name, "")

    async def set_fact(self, name: str, value: str) -> None:
        self.values[name] = value

    async def post(self, name: str, place: SessionKey, text: str) -> None:
        raise NotImplementedError


class Seen:
    """What a connection passed on."""

    def __init__(self, bot: DiscordBot) -> None:
        self.bot = bot
        self.events: list[Inbound | Judged] = []
        self.failures: list[Exception] = []

    async def accept(self, event: Inbound | Judged) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.events.append(event)

    async def wait(self, count: int) -> list[Inbound | Judged]:
        """What was passed on, once it is so much."""
        with anyio.fail_after(60):
            while len(self.events) < count:  # noqa: ASYNC110
                await anyio.sleep(0.01)
        return self.events


Connected = Callable[..., AbstractAsyncContextManager[Seen]]


@pytest.fixture
async def discord(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[DiscordApi]:
    monkeypatch.setenv("DISCORD_BOT_TOKEN", TOKEN)
    async with DiscordApi.open() as discord:
        yield discord


@pytest.fixture
def discord_platform(discord: DiscordApi) -> DiscordPlatform:
    return DiscordPlatform(DiscordConfig(base_url=discord.base_url))


@asynccontextmanager
async def connected(platform: DiscordPlatform, facts: Facts | None = None) -> AsyncIterator[Seen]:
    """A connection that receives."""
    async with platform.connect(facts or Facts()) as bot:
        seen = Seen(bot)
        async with anyio.create_task_group() as group:
            group.start_soon(bot.receive, seen.accept)
            yield seen
            group.cancel_scope.cancel()
