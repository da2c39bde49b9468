"""One vLLM for the tests that need no more than one."""

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
def vllm_url(packaged: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The OpenAI API of a running vLLM that serves the packaged model."""
    log = tmp_path_factory.mktemp("vllm") / "server.log"
    with start_blocking_portal() as portal:
        server = VllmServer(packaged, ServerConfig(), name=PACKAGED, log=log)
        with portal.wrap_async_context_manager(server):
            yield server.base_url
