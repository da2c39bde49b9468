"""The sandbox of the configured backend, and the promises that it does not keep."""

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import anyio

from hermes_lab.config.sandboxes import IMAGE, Promise, SandboxConfig
from hermes_lab.errors import ConfigError
from hermes_lab.protocols import Sandbox
from hermes_lab.sandbox.extras import NOTHING_MORE, Extras
from hermes_lab.types import Root

if TYPE_CHECKING:
    from hermes_lab.sandbox.daytona import DaytonaMachine
    from hermes_lab.sandbox.modal import ModalMachine
    from hermes_lab.sandbox.ssh import SshMachine


def open_sandbox(config: SandboxConfig, extras: Extras = NOTHING_MORE, *, root: Root | None = None) -> Sandbox:
    """The sandbox of `config.backend`, with `extras`; it starts when entered. `root` is that of the task.

    Raises `ConfigError` for what `check_required` refuses, for `local` without `allow_local`, and for a `root` where
    the backend has none.
    """
    check_required(config)
    if root is not None:
        config = stricter(config, root)
        if config.backend == "local":
            raise ConfigError("sandbox.backend: local has no system for a task to change; use bubblewrap or docker")
    match config.backend:
        case "docker":
            from hermes_lab.sandbox.docker import DockerSandbox

            return DockerSandbox(config, extras, root)
        case "local":
            from hermes_lab.sandbox.local import LocalSandbox

            return LocalSandbox(config, extras)
        case "bubblewrap":
            from hermes_lab.sandbox.bubblewrap import BubblewrapSandbox

            return BubblewrapSandbox(config, extras, root)
        case "ssh":
            from hermes_lab.sandbox.remote.sandbox import RemoteSandbox
            from hermes_lab.sandbox.ssh import SshMachine

            return RemoteSandbox(config, SshMachine(config, keeps=False), extras, root)
        case "apptainer":
            from hermes_lab.sandbox.apptainer import ApptainerMachine
            from hermes_lab.sandbox.remote.sandbox import RemoteSandbox

            return RemoteSandbox(config, ApptainerMachine(config), extras, root)
        case "modal":
            from hermes_lab.sandbox.modal import ModalMachine
            from hermes_lab.sandbox.remote.sandbox import RemoteSandbox

            return RemoteSandbox(config, ModalMachine(config, keeps=False), extras, root)
        case "daytona":
            from hermes_lab.sandbox.daytona import DaytonaMachine
            from hermes_lab.sandbox.remote.sandbox import RemoteSandbox

            return RemoteSandbox(config, DaytonaMachine(config, keeps=False), extras, root)


@asynccontextmanager
async def open_sandboxes(config: SandboxConfig) -> AsyncIterator[Callable[..., Sandbox]]:
    """Yields what opens sandboxes as `open_sandbox` does. Those on another machine share one connection to it, and
    those at a service one client."""
    if config.backend not in ("ssh", "modal", "daytona"):
        yield partial(open_sandbox, config)
        return
    from hermes_lab.sandbox.remote.sandbox import RemoteSandbox

    check_required(config)
    machine = _shared_machine(config)

    def opened(extras: Extras = NOTHING_MORE, *, root: Root | None = None) -> Sandbox:
        return RemoteSandbox(config, machine, extras, root)

    try:
        yield opened
    finally:
        with anyio.CancelScope(shield=True):
            await machine.aclose()


def _shared_machine(config: SandboxConfig) -> "SshMachine | ModalMachine | DaytonaMachine":
    if config.backend == "ssh":
        from hermes_lab.sandbox.ssh import SshMachine

        return SshMachine(config)
    if config.backend == "modal":
        from hermes_lab.sandbox.modal import ModalMachine

        return ModalMachine(config)
    from hermes_lab.sandbox.daytona import DaytonaMachine

    return DaytonaMachine(config)


def stricter(config: SandboxConfig, root: Root) -> SandboxConfig:
    """The configuration with the task's own limits where they are stricter, and with its image."""
    limits: dict[str, int | str] = {}
    for name, asked in {"memory_mb": root.memory_mb, "disk_mb": root.disk_mb}.items():
        if asked and asked < getattr(config, name):
            limits[name] = asked
    return config.model_copy(update=limits | ({"image": root.image} if root.image else {}))


def unkept(config: SandboxConfig) -> Mapping[Promise, str]:
    """The promises that `config.backend` does not keep, as it is configured, each with what may happen."""
    if config.backend == "local":
        from hermes_lab.sandbox.local import UNKEPT

        return UNKEPT
    if config.backend == "ssh" and config.ssh.isolation == "none":
        from hermes_lab.sandbox.ssh import UNKEPT as UNKEPT_OVER_SSH

        return UNKEPT_OVER_SSH
    if config.backend == "apptainer":
        from hermes_lab.sandbox.apptainer import UNKEPT as UNKEPT_IN_APPTAINER

        return UNKEPT_IN_APPTAINER
    if config.backend == "modal":
        from hermes_lab.sandbox.modal import UNKEPT as UNKEPT_AT_MODAL

        return UNKEPT_AT_MODAL
    if config.backend == "daytona":
        from hermes_lab.sandbox.daytona import UNKEPT as UNKEPT_AT_DAYTONA

        return UNKEPT_AT_DAYTONA
    return {}


def check_required(config: SandboxConfig) -> None:
    """Raises `ConfigError` for the first promise in `config.require` that the backend does not keep, and in an image of
    the Dockerfile for a backend that does not isolate."""
    if os.environ.get(IMAGE) and not config.isolates:
        what = "sandbox.ssh.isolation=none" if config.backend == "ssh" else f"sandbox.backend={config.backend}"
        raise ConfigError(f"{what}: nothing runs without isolation in this container; use sandbox.backend=bubblewrap")
    for promise, why in unkept(config).items():
        if promise in config.require:
            raise ConfigError(f"sandbox.require: sandbox.backend={config.backend} does not keep {promise}: {why}")


def missing_guarantees(config: SandboxConfig) -> tuple[str, ...]:
    """What `unkept` says, one line each, for a warning before a run."""
    return tuple(dict.fromkeys(unkept(config).values()))
