"""The test double of Modal, and the configuration that uses it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.modal_service import ModalDouble, environment, running_modal

from hermes_lab.config.sandboxes import SandboxConfig


@pytest.fixture(scope="session")
def service() -> Iterator[ModalDouble]:
    """One for all tests: the SDK keeps one client for the process."""
    with running_modal() as double:
        yield double


@pytest.fixture
def double(service: ModalDouble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModalDouble]:
    """Without what tests before have left."""
    for name, value in environment(service).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    service.reset()
    yield service
    service.reset()


@pytest.fixture
def modal(double: ModalDouble) -> SandboxConfig:
    """Sandboxes in the containers of the double."""
    return SandboxConfig(backend="modal")
