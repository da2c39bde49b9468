"""Verifiers are tested in the real sandbox."""

from collections.abc import Callable

import pytest

from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.protocols import Sandbox
from hermes_lab.sandbox import open_sandbox as open_configured


@pytest.fixture
def open_sandbox() -> Callable[[], Sandbox]:
    return lambda: open_configured(SandboxConfig())
