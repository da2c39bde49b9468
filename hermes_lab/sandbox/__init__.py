"""Isolated workspaces, a fresh one for every episode."""

from hermes_lab.config import SandboxConfig
from hermes_lab.protocols import Sandbox
from hermes_lab.sandbox.bubblewrap import BubblewrapSandbox
from hermes_lab.sandbox.probe import probe

__all__ = ["open_sandbox", "probe"]


def open_sandbox(config: SandboxConfig) -> Sandbox:
    """The sandbox that `config.backend` names; it starts when it is entered."""
    return BubblewrapSandbox(config)
