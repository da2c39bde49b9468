"""The modal backend: a container at Modal (modal.com) for each episode.

The container runs the lab's worker (`hermes_lab.sandbox.remote`), and the worker runs the agent's commands.
"""

import importlib.util
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import anyio

from hermes_lab.config.sandboxes import Promise, SandboxConfig
from hermes_lab.errors import ConfigError, HermesLabError, SandboxError
from hermes_lab.sandbox.leases import Lease, dead_leases, take_lease
from hermes_lab.sandbox.modal_stream import ModalStream, said
from hermes_lab.sandbox.remote.link import Link
from hermes_lab.sandbox.remote.package import package
from hermes_lab.sandbox.volumes import Volume, named_volumes_of
from hermes_lab.sandbox.workspace import WORKSPACE

_SERVICE = "modal"
_CREATE_SECONDS = 1800.0  # capacity may have to be waited for
_END_SECONDS = 30.0
_WORKER_MB = 128
_LEAST_MB = 128  # Modal's own minimum
_TAGS = {"made-by": "hermes-lab"}
_GPU = re.compile(r"[A-Za-z0-9][A-Za-z0-9+!-]*(:[1-9][0-9]?)?")
_ESCAPES = "a process that clears its environment (env -i) escapes the limit until its container ends"
UNKEPT: Mapping[Promise, str] = {
    "verifier": "commands run as the same user as the verifier's in a container, and could interfere with them",
    "disk": _ESCAPES,
    "processes": "no limit on the number of processes but Modal's own",
    "no_orphans": "if the harness is killed, its containers run on at Modal until the next run here, or until "
    "sandbox.modal.max_seconds have passed",
}
"""The promises that are not kept in a container at Modal."""


class _Ready(NamedTuple):
    """What all sandboxes of a run share."""

    app: Any
    image: Any
    volumes: Mapping[str, Any]
    lease: Lease


class ModalMachine:
    """Containers at Modal, one with one worker for each sandbox."""

    kind = "local"
    workspace = str(WORKSPACE)

    def __init__(self, config: SandboxConfig, *, keeps: bool = True) -> None:
        """`keeps`: whether there will be more sandboxes when none is left, until `aclose`."""
        if importlib.util.find_spec("modal") is None:
            raise ConfigError("sandbox.backend: modal needs its SDK: pip install 'hermes-lab[modal]'")
        check_account()
        if not config.image or "://" in config.image:
            raise ConfigError(
                f"sandbox.image: {config.image!r}: give an image of a registry, such as python:3.11-slim or "
                "ghcr.io/me/mine:1"
            )
        if config.gpu and not _GPU.fullmatch(config.gpu):
            raise ConfigError(
                f"sandbox.gpu: {config.gpu!r}: with modal give a type such as T4, or a type and a number such as A100:2"
            )
        self._volumes = _checked_volumes(config)
        self._config = config
        self._keeps = keeps
        self._ready: _Ready | None = None
        self._preparing = anyio.Lock()
        self._sandboxes: dict[Link, Any] = {}
        self._left = False  # whether one could not be ended
        self._unsure = False  # whether one may have been made without an answer

    async def acquire(self) -> Link:
        """See `Machine.acquire`. Raises `ConfigError` for what Modal refuses."""
        try:
            return await self._acquired()
        except BaseException:
            if not self._keeps:
                await self.aclose()
            raise

    async def _acquired(self) -> Link:
        async with self._preparing:
            if self._ready is None:
                self._ready = await self._prepare()
        sandbox = await self._create(self._ready)
        try:
            with _errors():
                process = await sandbox.exec.aio(
                    *("/bin/sh", "-c", package().command("python3")),
                    env={"XDG_CACHE_HOME": "/tmp/.cache", "LANG": "C.UTF-8"},
                    text=False,
                )
            link = Link(ModalStream(sandbox, process, self._config.modal.max_seconds), _SERVICE)
            try:
                await link.open(package(), "python3")
            except BaseException:
                await link.aclose()
                raise
        except BaseException:
            await self._end(sandbox)
            raise
        self._sandboxes[link] = sandbox
        return link

    async def release(self, link: Link) -> None:
        """Ends the container."""
        await link.aclose()
        await self._end(self._sandboxes.pop(link))
        if not self._keeps:
            await self.aclose()

    async def aclose(self) -> None:
        """Ends what may be left at Modal. What cannot be ended now, the next run ends."""
        if self._ready is None:
            return
        ready, self._ready = self._ready, None
        with anyio.CancelScope(shield=True):
            ended = not (self._left or self._unsure) or await _ended(ready.app, ready.lease)
            ready.lease.close(left=self._unsure or not ended)  # the answer may still be on its way
        self._left = self._unsure = False

    async def _prepare(self) -> _Ready:
        """Finds the app, the image and the volumes, and ends what dead harnesses left."""
        import modal

        section = self._config.modal
        environment = section.environment or None
        with _errors("sandbox.modal"):
            app = await modal.App.lookup.aio(section.app, environment_name=environment, create_if_missing=True)
        about = {"app": section.app, "environment": section.environment}
        for dead in dead_leases(_SERVICE, about):
            left = True
            try:
                left = not await _ended(app, dead)
            finally:
                dead.close(left=left)
        with _errors("sandbox.image"):
            image = await modal.Image.from_registry(self._config.image).build.aio(app)
        volumes = {}
        for each in self._volumes:
            with _errors("sandbox.volumes"):
                try:
                    volume = modal.Volume.from_name(each.source, environment_name=environment)
                    await volume.hydrate.aio()
                except modal.exception.NotFoundError:
                    raise ConfigError(
                        f"sandbox.volumes: {each.source}: Modal has no volume of this name; create it: "
                        f"modal volume create {each.source}"
                    ) from None
                volumes[str(each.target)] = volume.with_mount_options(read_only=True) if each.read_only else volume
        return _Ready(app, image, volumes, take_lease(_SERVICE, about))

    async def _create(self, ready: _Ready) -> Any:
        import modal

        config, seconds = self._config, self._config.modal.max_seconds
        memory = max(config.memory_mb, _LEAST_MB)
        try:
            with _errors("sandbox.gpu" if config.gpu else "sandbox"), anyio.move_on_after(_CREATE_SECONDS):
                return await modal.Sandbox.create.aio(
                    *("sleep", str(seconds)),  # what the image would run may end at once
                    app=ready.app,
                    image=ready.image,
                    volumes=dict(ready.volumes),
                    gpu=config.gpu or None,
                    memory=(memory, memory + _WORKER_MB),
                    timeout=seconds,
                    block_network=True,
                    tags={**_TAGS, "lease": ready.lease.name},
                )
            raise SandboxError(f"sandbox: modal: no container within {_CREATE_SECONDS:g} seconds")
        except BaseException as error:
            self._unsure = self._unsure or not isinstance(error, ConfigError)
            raise

    async def _end(self, sandbox: Any) -> None:
        with anyio.CancelScope(shield=True):
            with suppress(Exception), anyio.move_on_after(_END_SECONDS):
                await sandbox.terminate.aio()
                await sandbox.detach.aio()
                return
            self._left = True


async def _ended(app: Any, lease: Lease) -> bool:
    """Ends the sandboxes of a lease. Whether that succeeded."""
    import modal

    with suppress(Exception), anyio.move_on_after(_END_SECONDS):
        async for sandbox in modal.Sandbox.list.aio(app_id=app.app_id, tags={**_TAGS, "lease": lease.name}):
            await sandbox.terminate.aio()
        return True
    return False


def _checked_volumes(config: SandboxConfig) -> Sequence[Volume]:
    """Raises `ConfigError` for what the SDK would only refuse when a sandbox is made."""
    volumes = named_volumes_of(config)
    names = [each.source for each in volumes]
    for each in volumes:
        if names.count(each.source) > 1:
            raise ConfigError(f"sandbox.volumes: {each.source}: Modal mounts a volume once in a sandbox; leave one out")
        if str(each.target) in ("/root", "/tmp"):
            raise ConfigError(
                f"sandbox.volumes: {each.source}: Modal mounts nothing at {each.target}; give another target"
            )
    return volumes


def check_account() -> None:
    """Raises `ConfigError` if there is no token. Whether it is valid, only Modal knows."""
    from modal.config import config

    if not any(config.get(name) for name in ("token_id", "oauth_refresh_token")):
        raise ConfigError(
            "sandbox.backend: modal needs a token: sign up at modal.com, then run `modal token new`, or set "
            "MODAL_TOKEN_ID and MODAL_TOKEN_SECRET"
        )


@contextmanager
def _errors(field: str = "") -> Iterator[None]:
    """Turns the SDK's errors into those of the lab; `field` is what Modal looks at, if it is one."""
    from modal import exception

    try:
        yield
    except HermesLabError:
        raise
    except (exception.AuthError, exception.PermissionDeniedError) as error:
        raise ConfigError(
            f"sandbox.backend: Modal refuses the token: {said(error)}; `modal token new` makes another"
        ) from None
    except exception.ImageBuildError as error:
        raise ConfigError(f"{field}: {said(error)}") from None
    except Exception as error:  # also those of its transport
        refused = isinstance(error, (exception.InvalidError, exception.NotFoundError))
        if field and refused and not isinstance(error, exception.ConflictError):
            raise ConfigError(f"{field}: Modal refuses it: {said(error)}") from None
        raise SandboxError(f"sandbox: modal: {said(error)}") from None
