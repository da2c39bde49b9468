"""A gateway on the double of Slack."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from fakes.slack_api import SlackApi

from hermes_lab.config.home import HomeConfig
from hermes_lab.gateway.daemon import Gateway
from hermes_lab.gateway.platforms import open_platform

OWNER = "U1"


@asynccontextmanager
async def gateway(home: Path, api: SlackApi, **settings: Any) -> AsyncIterator[Gateway]:
    """A daemon that answers each message with its own text; `OWNER` and U2 may write to it."""
    slack = {"base_url": api.url, "allow": [OWNER, "U2"]}
    config = HomeConfig.model_validate(
        {
            "gateway": {"platforms": ["slack"], "slack": slack, **settings},
            "model": {"provider": "scripted", "name": "fakes.tool_caller:tool_caller"},
        }
    )
    daemon = Gateway(config, home, [open_platform("slack", config.gateway)])
    async with anyio.create_task_group() as group:
        group.start_soon(daemon.run)
        try:
            yield daemon
        finally:
            group.cancel_scope.cancel()


def state(daemon: Gateway) -> str:
    """Whether Slack is up or down, and why."""
    found = daemon._states["slack"]
    return f"{found['state']}: {found.get('why', '')}"


def texts(api: SlackApi) -> list[str]:
    """What the bot has sent."""
    return [message["text"] for message in api.sent]


async def until(holds: Callable[[], object]) -> None:
    """Waits until something holds."""
    with anyio.fail_after(60):
        while not holds():  # noqa: ASYNC110 - another process or task
            await anyio.sleep(0.02)
