"""The real trajectory server, and a fake vLLM."""

import socket
from collections.abc import Iterator

import pytest
from trajectory_server import RunApi, require_run_api, run_api


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunApi]:
    require_run_api()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with run_api(port, tmp_path_factory.mktemp("run-api")) as started:
        yield started


@pytest.fixture
def api(server: RunApi) -> RunApi:
    """The server of the module, which knows nothing of the tests before."""
    server.forget()
    return server


@pytest.fixture
def new_api(server: RunApi) -> RunApi:
    """A server that was never reset: it has other states."""
    server.kill()
    server.start()
    return server
