"""A real sandbox, and eyes on the host's processes."""

from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

import pytest
from docker_fixture import needed_config
from fakes import processes

from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.protocols import Sandbox
from hermes_lab.sandbox import open_sandbox
from hermes_lab.sandbox.bubblewrap import BubblewrapSandbox
from hermes_lab.sandbox.extras import NOTHING_MORE, Extras


class Backend(NamedTuple):
    """One way to isolate, as configured for this machine."""

    name: str
    config: SandboxConfig

    def open(self, extras: Extras = NOTHING_MORE, **limits: int) -> Sandbox:
        """A sandbox with these limits in place of the usual ones."""
        return open_sandbox(self.config.model_copy(update=limits), extras)


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
    return processes.unique_seconds()


@pytest.fixture
def is_running() -> Callable[[str], bool]:
    return processes.is_running


@pytest.fixture
def eventually() -> Callable[[Callable[[], bool]], object]:
    return processes.eventually
