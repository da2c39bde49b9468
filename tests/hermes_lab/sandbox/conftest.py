"""A real sandbox, and eyes on the host's processes."""

import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import NamedTuple

import anyio
import pytest
from docker_fixture import needed_config

from hermes_lab.config.schema import SandboxConfig
from hermes_lab.protocols import Sandbox
from hermes_lab.sandbox import open_sandbox
from hermes_lab.sandbox.bubblewrap import BubblewrapSandbox


class Backend(NamedTuple):
    """One way to isolate, as configured for this machine."""

    name: str
    config: SandboxConfig

    def open(self, **limits: int) -> Sandbox:
        """A sandbox with these limits in place of the usual ones."""
        return open_sandbox(self.config.model_copy(update=limits))


@pytest.fixture(params=["bubblewrap", "docker", "local"])
def backend(request: pytest.FixtureRequest) -> Backend:
    """Every backend in turn; docker is skipped, with the reason, where there is no engine."""
    configs: dict[str, Callable[[], SandboxConfig]] = {
        "bubblewrap": SandboxConfig,
        "docker": needed_config,
        "local": lambda: SandboxConfig(backend="local", allow_local=True),
    }
    return Backend(request.param, configs[request.param]())


@pytest.fixture
async def sandbox() -> AsyncIterator[BubblewrapSandbox]:
    async with BubblewrapSandbox(SandboxConfig()) as sandbox:
        yield sandbox


@pytest.fixture
def marker() -> str:
    """Seconds to sleep that no other process of the host sleeps."""
    return f"4000.{uuid.uuid4().int}"


def _is_running(marker: str) -> bool:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if marker.encode() in path.read_bytes():
                return True
        except OSError:
            continue
    return False


@pytest.fixture
def is_running() -> Callable[[str], bool]:
    """Whether any process of the host has the marker in its command line."""
    return _is_running


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(20):
        while not condition():  # noqa: ASYNC110
            await anyio.sleep(0.01)


@pytest.fixture
def eventually() -> Callable[[Callable[[], bool]], object]:
    """Waits for a condition, and fails where it never comes."""
    return until
