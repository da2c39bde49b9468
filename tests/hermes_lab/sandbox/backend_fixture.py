"""The sandbox backends under test."""

from typing import NamedTuple

from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.protocols import Sandbox
from hermes_lab.sandbox import open_sandbox
from hermes_lab.sandbox.extras import NOTHING_MORE, Extras


class Backend(NamedTuple):
    """A backend, as configured for this machine."""

    name: str
    config: SandboxConfig

    def open(self, extras: Extras = NOTHING_MORE, **limits: int) -> Sandbox:
        """A sandbox with these limits instead of the configured ones."""
        return open_sandbox(self.config.model_copy(update=limits), extras)
