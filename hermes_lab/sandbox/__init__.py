"""Workspaces for episodes, a fresh one for each; how they are isolated is the backend's matter."""

from hermes_lab.config.schema import SandboxConfig
from hermes_lab.protocols import Sandbox
from hermes_lab.sandbox.probe import probe

__all__ = ["open_sandbox", "probe", "unkept_promises"]


def open_sandbox(config: SandboxConfig) -> Sandbox:
    """The sandbox that `config.backend` names; it starts when it is entered.

    Raises `ConfigError` for `local` without `allow_local`.
    """
    if config.backend == "docker":
        from hermes_lab.sandbox.docker import DockerSandbox

        return DockerSandbox(config)
    if config.backend == "local":
        from hermes_lab.sandbox.local import LocalSandbox

        return LocalSandbox(config)
    from hermes_lab.sandbox.bubblewrap import BubblewrapSandbox

    return BubblewrapSandbox(config)


def unkept_promises(config: SandboxConfig) -> tuple[str, ...]:
    """What `config.backend` cannot keep of what a sandbox promises, a line each: to be said before a run begins."""
    if config.backend == "local":
        from hermes_lab.sandbox.local import UNKEPT

        return UNKEPT
    return ()
