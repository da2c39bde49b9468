"""The real trajectory server, and a fake vLLM."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from trajectory_server import RunApi, require_run_api, run_api


@pytest.fixture
def api(tmp_path: Path) -> Iterator[RunApi]:
    require_run_api()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with run_api(port, tmp_path) as server:
        yield server
