"""The sandbox of the configured backend."""

from hermes_lab.config.schema import SandboxConfig
from hermes_lab.errors import ConfigError
from hermes_lab.protocols import Sandbox
from hermes_lab.sandbox.extras import NOTHING_MORE, Extras
from hermes_lab.types import Root


def open_sandbox(config: SandboxConfig, extras: Extras = NOTHING_MORE, *, root: Root | None = None) -> Sandbox:
    """The sandbox of `config.backend`, with `extras`; it starts when entered. `root` is that of the task.

    Raises `ConfigError` for `local` without `allow_local`, or with a `root`.
    """
    if root is not None:
        config = stricter(config, root)
        if config.backend == "local":
            raise ConfigError("sandbox.backend: local has no system for a task to change; use bubblewrap or docker")
    if config.backend == "docker":
        from hermes_lab.sandbox.docker import DockerSandbox

        return DockerSandbox(config, extras, root)
    if config.backend == "local":
        from hermes_lab.sandbox.local import LocalSandbox

        return LocalSandbox(config, extras)
    from hermes_lab.sandbox.bubblewrap import BubblewrapSandbox

    return BubblewrapSandbox(config, extras, root)


def stricter(config: SandboxConfig, root: Root) -> SandboxConfig:
    """The configuration with the task's own limits where they are stricter, and with its image."""
    limits: dict[str, int | str] = {}
    for name, asked in {"memory_mb": root.memory_mb, "disk_mb": root.disk_mb}.items():
        if asked and asked < getattr(config, name):
            limits[name] = asked
    return config.model_copy(update=limits | ({"image": root.image} if root.image else {}))


def missing_guarantees(config: SandboxConfig) -> tuple[str, ...]:
    """The sandbox guarantees that `config.backend` does not provide, one line each, for a warning before a run."""
    if config.backend == "local":
        from hermes_lab.sandbox.local import MISSING_GUARANTEES

        return MISSING_GUARANTEES
    return ()
