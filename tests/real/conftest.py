"""One vLLM for the tests that need no more than one."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from anyio.from_thread import start_blocking_portal

from hermes_lab.config.schema import ServerConfig
from hermes_lab.models.server import VllmServer
from hermes_lab.models.weights import PACKAGED, resolve


@pytest.fixture(scope="session")
def packaged() -> Path:
    """The folder of the packaged model's weights."""
    pytest.importorskip("torch", reason="the packaged model is converted with torch")
    return resolve(PACKAGED)


@pytest.fixture(scope="session")
def server(packaged: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmServer]:
    """A running vLLM that serves the packaged model. Once it is stopped, none of its processes is left."""
    log = tmp_path_factory.mktemp("vllm") / "server.log"
    with start_blocking_portal() as portal:
        server = VllmServer(packaged, ServerConfig(), name=PACKAGED, log=log)
        with portal.wrap_async_context_manager(server):
            assert server._process is not None
            group = _group_of_child(server._process.pid)
            assert sum(pgid == group for _, _, pgid in _processes()) >= 2
            yield server
    assert not any(pgid == group for _, _, pgid in _processes())


@pytest.fixture(scope="session")
def vllm_url(server: VllmServer) -> str:
    """The base URL of its OpenAI API."""
    return server.base_url


def _group_of_child(parent: int) -> int:
    """The process group that a child of `parent` leads."""
    return next(pid for pid, ppid, pgid in _processes() if ppid == parent and pgid == pid)


def _processes() -> list[tuple[int, int, int]]:
    """Pid, parent and group of every process that runs."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid=,pgid=,stat="], capture_output=True, text=True, check=True)
    rows = [line.split() for line in listed.stdout.splitlines()]
    return [(int(pid), int(ppid), int(pgid)) for pid, ppid, pgid, state in rows if not state.startswith("Z")]
