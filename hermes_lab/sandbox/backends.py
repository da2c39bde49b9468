"""The sandbox of the configured backend."""

from hermes_lab.config.schema import SandboxConfig
from hermes_lab.protocols import Sandbox


def open_sandbox(config: SandboxConfig) -> Sandbox:
    """The sandbox of `config.backend`; it starts when entered.

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


def missing_guarantees(config: SandboxConfig) -> tuple[str, ...]:
    """The sandbox guarantees that `config.backend` does not provide, one line each, for a warning before a run."""
    if config.backend == "local":
        from hermes_lab.sandbox.local import MISSING_GUARANTEES

        return MISSING_GUARANTEES
    return ()
