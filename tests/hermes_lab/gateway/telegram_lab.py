"""A gateway on the double of the Bot API."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from fakes.telegram_api import TelegramApi

from hermes_lab.config.gateway import TelegramConfig
from hermes_lab.config.home import HomeConfig
from hermes_lab.gateway.daemon import Gateway
from hermes_lab.gateway.platform import Inbound, Judged
from hermes_lab.gateway.platforms import open_platform
from hermes_lab.gateway.platforms.telegram import TelegramBot, TelegramPlatform
from hermes_lab.gateway.restart import STATUS
from hermes_lab.sessions import SessionKey

OWNER = 7


@asynccontextmanager
async def gateway(home: Path, api: TelegramApi, *platforms: str, **settings: Any) -> AsyncIterator[Gateway]:
    """A daemon that answers each message with its own text; `OWNER` may write to it."""
    names = platforms or ("telegram",)
    telegram = {"base_url": api.url, "allow": [str(OWNER)]}
    config = HomeConfig.model_validate(
        {
            "gateway": {"platforms": names, "telegram": telegram, "http": {"port": 0}, **settings},
            "model": {"provider": "scripted", "name": "fakes.tool_caller:tool_caller"},
        }
    )
    daemon = Gateway(config, home, [open_platform(name, config.gateway) for name in names])
    async with anyio.create_task_group() as group:
        group.start_soon(daemon.run)
        yield daemon
        group.cancel_scope.cancel()


class Facts:
    """What the platform is given (`Services`), in memory."""

    commands = (("help", "Help"),)

    def __init__(self) -> None:
        self.facts: dict[str, str] = {}

    async def fact(self, name: str) -> str:
        return self.facts.get(name, "")

    async def set_fact(self, name: str, value: str) -> None:
        self.facts[name] = value

    async def post(self, name: str, place: SessionKey, text: str) -> None:
        raise AssertionError(name)


@asynccontextmanager
async def connected(api: TelegramApi, facts: Facts | None = None) -> AsyncIterator[TelegramBot]:
    """The platform alone."""
    async with TelegramPlatform(TelegramConfig(base_url=api.url)).connect(facts or Facts()) as bot:
        yield bot


async def heard(api: TelegramApi, facts: Facts | None = None) -> list[Inbound | Judged]:
    """The events of all updates that wait."""
    events: list[Inbound | Judged] = []
    api.polled = False

    async def accept(event: Inbound | Judged) -> None:
        events.append(event)

    async with connected(api, facts) as bot, anyio.create_task_group() as group:
        group.start_soon(bot.receive, accept)
        await until(lambda: api.polled and not api.waiting)
        group.cancel_scope.cancel()
    return events


def status(home: Path) -> dict[str, Any]:
    """What the daemon says of itself."""
    path = home / STATUS
    return dict(json.loads(path.read_bytes())) if path.exists() else {}


def state(home: Path, platform: str = "telegram") -> str:
    """Whether a platform is up or down, and why."""
    found = status(home).get("platforms", {}).get(platform, {})
    return f"{found.get('state')}: {found.get('why')}"


def texts(api: TelegramApi) -> list[str]:
    """What the bot has sent."""
    return [message["text"] for message in api.sent]


async def until(holds: Callable[[], object]) -> None:
    """Waits until something holds."""
    with anyio.fail_after(60):
        while not holds():  # noqa: ASYNC110 - another process or task
            await anyio.sleep(0.02)
