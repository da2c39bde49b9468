"""A real sandbox, and eyes on the host's processes."""

import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import fakes
import pytest
from backend_fixture import Backend
from docker_fixture import needed_config
from fakes import processes
from fakes.daytona import FakeDaytona
from fakes.sshd import Sshd, running_sshd
from modal_fixture import modal, modal_double, modal_service  # noqa: F401

from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.sandbox.bubblewrap import BubblewrapSandbox


@pytest.fixture(scope="session")
def sshd() -> Iterator[Sshd]:
    with running_sshd() as started:
        yield started


@pytest.fixture
def apptainer(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> SandboxConfig:
    """Containers of a test double of apptainer, over this machine's programs."""
    folder = tmp_path_factory.mktemp("bin")
    shim = folder / "apptainer"
    shim.write_text(f'#!/bin/sh\nexec /usr/bin/python3 {Path(fakes.__file__).with_name("apptainer.py")} "$@"\n')
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return SandboxConfig(backend="apptainer", image="/")


@pytest.fixture
def daytona(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDaytona]:
    """A test double of Daytona, with a key in the environment and no leases of harnesses."""
    service = FakeDaytona(tmp_path_factory.mktemp("daytona"))
    service.start()
    monkeypatch.setenv("DAYTONA_API_KEY", service.key)
    monkeypatch.setenv("XDG_CACHE_HOME", str(service.folder / "cache"))
    yield service
    service.close()


@pytest.fixture(params=["bubblewrap", "docker", "local"])
def backend_here(request: pytest.FixtureRequest) -> Backend:
    """Every backend whose folders are on this machine."""
    return _backend(request)


@pytest.fixture(params=["bubblewrap", "docker", "local", "ssh"])
def backend(request: pytest.FixtureRequest) -> Backend:
    """Every backend in turn; docker and ssh are skipped, with the reason, where there is no engine or server. ssh is
    this machine by way of a real server, with bubblewrap there."""
    return _backend(request)


def _backend(request: pytest.FixtureRequest) -> Backend:
    configs: dict[str, Callable[[], SandboxConfig]] = {
        "ssh": lambda: request.getfixturevalue("sshd").config(),
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
