"""The test double of Modal, and the configuration that uses it. The SDK is loaded by tests that need it alone."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hermes_lab.config.sandboxes import SandboxConfig

if TYPE_CHECKING:
    from fakes.modal_container import Container
    from fakes.modal_service import ModalDouble


@pytest.fixture(scope="session")
def modal_service() -> Iterator["ModalDouble"]:
    """One for all tests: the SDK keeps one client for the process."""
    from fakes.modal_service import running_modal

    with running_modal() as double:
        yield double


@pytest.fixture
def modal_double(
    modal_service: "ModalDouble", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator["ModalDouble"]:
    """Without what tests before have left."""
    for name, value in modal_service.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    modal_service.reset()
    yield modal_service
    modal_service.reset()


@pytest.fixture
def modal(modal_double: "ModalDouble") -> SandboxConfig:
    """Sandboxes in the containers of the double."""
    return SandboxConfig(backend="modal")


def leases(tmp_path: Path) -> list[Path]:
    """The leases that dead or living harnesses have."""
    return list((tmp_path / "state").rglob("leases/modal/*"))


def only(modal_double: "ModalDouble") -> "Container":
    """Its only container that lives."""
    (container,) = modal_double.living()
    return container
