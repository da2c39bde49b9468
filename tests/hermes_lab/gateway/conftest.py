"""A gateway in this process, on a platform of tests."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from discord_fixture import discord, discord_platform  # noqa: F401
from fakes.synapse import PROGRAM, Synapse
from fakes.wire import Start, Wire

from hermes_lab.config.home_file import load_home_config
from hermes_lab.gateway.daemon import Gateway
from hermes_lab.gateway.platform import Platform

MODEL = "model={provider: scripted, name: 'fakes.tool_caller:tool_caller'}"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    monkeypatch.setenv("HERMES_HOME", str(folder))
    return folder


@pytest.fixture
def wire() -> Wire:
    return Wire()


@pytest.fixture(scope="session")
def synapse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Synapse]:
    if not PROGRAM.exists():
        pytest.skip(f"Synapse is not installed at {PROGRAM} (make programs)")
    server = Synapse(tmp_path_factory.mktemp("synapse"))
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture
def start(home: Path) -> Start:
    """Runs a gateway on platforms; `allow` are the ids that each lets in."""

    @asynccontextmanager
    async def started(
        *platforms: Platform, sources: tuple[str, ...] = (), allow: str = "[ann, bob]"
    ) -> AsyncIterator[Gateway]:
        options = ", ".join(f"{each.name}: {{allow: {allow}}}" for each in platforms)
        chosen = (
            MODEL,
            f"gateway.options={{{options}}}",
            "agent.toolsets=[terminal,process,clarify,messages]",
            *sources,
        )
        gateway = Gateway(load_home_config(home, chosen), home, platforms, chosen)
        async with anyio.create_task_group() as group:
            group.start_soon(gateway.run)
            try:
                yield gateway
            finally:
                group.cancel_scope.cancel()

    return started
