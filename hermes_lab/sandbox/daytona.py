"""The daytona backend: a sandbox of the service Daytona for each episode.

The sandbox runs the lab's worker (`hermes_lab.sandbox.remote`), and the worker runs the agent's commands. Daytona's own
Python SDK needs other versions of packages than the lab, so the REST API is used, as daytona 0.226.1 uses it.
"""

import hashlib
import logging
import os
import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import anyio

from hermes_lab.config.sandboxes import Promise, SandboxConfig
from hermes_lab.errors import ConfigError, SandboxError
from hermes_lab.sandbox import daytona_pty
from hermes_lab.sandbox.daytona_api import DaytonaApi, DaytonaError
from hermes_lab.sandbox.leases import Lease, dead_leases, take_lease
from hermes_lab.sandbox.remote.link import Link
from hermes_lab.sandbox.remote.package import package
from hermes_lab.sandbox.volumes import Volume, named_volumes_of
from hermes_lab.sandbox.workspace import WORKSPACE

_log = logging.getLogger(__name__)
_SERVICE = "daytona"
LABEL = "hermes-lab"
"""The label of every sandbox of the lab."""
LEASE_LABEL = "hermes-lab-lease"
"""The label with the name of the harness's lease."""
GPUS = ("H100", "H200", "B200", "B300", "RTX-PRO-6000", "RTX-4090", "RTX-5090", "MI355X")
"""Daytona's types of GPUs (`GpuType` of daytona-api-client 0.226.1)."""
_KEYS_PAGE = "https://app.daytona.io/dashboard/keys"
_START_SECONDS = 600.0  # the first sandbox of an image waits for its build
_DELETE_SECONDS = 90.0
_POLL_SECONDS = (0.1, 1.0)
_GONE = {"error", "build_failed", "destroyed", "destroying", "stopped", "stopping", "archived", "archiving"}
_IMAGE = re.compile(r"[a-z0-9][a-z0-9._/-]*(:[0-9]+/[a-z0-9._/-]+)?(:[\w][\w.-]{0,127})?(@sha256:[0-9a-f]{64})?")
_NOT_MOUNTED = ("/boot", "/etc", "/bin", "/sbin", "/lib", "/lib64")
_ESCAPES = "a process that clears its environment (env -i) escapes the limits but those of its sandbox at Daytona"
UNKEPT: Mapping[Promise, str] = {
    "verifier": "commands run as the same user as the verifier's in a sandbox, and could interfere with them",
    "memory": _ESCAPES,
    "disk": _ESCAPES,
    "processes": "no limit on the number of processes but that of the sandbox at Daytona",
    "no_orphans": "if the harness is killed with SIGKILL, its sandboxes stay until the next run, or until "
    "sandbox.daytona.max_seconds",
}
"""The promises that are not kept in a sandbox whose user is also that of the worker, at a service."""


class DaytonaMachine:
    """An account at Daytona, with one sandbox and one worker for each sandbox of the lab."""

    kind = "local"
    workspace = str(WORKSPACE)

    def __init__(self, config: SandboxConfig, *, keeps: bool = True) -> None:
        """`keeps`: whether the client stays when no sandbox uses it, until `aclose`."""
        self._config = config
        self._settings = config.daytona
        self._api = _api(config)
        self._account = _account(config)
        self._made_of = _made_of(config)
        self._volumes = _volumes(config)
        self._keeps = keeps
        self._opening = anyio.Lock()
        self._lease: Lease | None = None
        self._mounts: Sequence[Mapping[str, str]] = ()
        self._left = False
        self._names: dict[Link, str] = {}

    async def acquire(self) -> Link:
        """See `Machine.acquire`. Raises `ConfigError` for a key that is refused, and for a volume that the account does
        not have."""
        name = f"hermes-lab-{uuid.uuid4().hex}"
        link: Link | None = None
        asked = False
        try:
            lease = await self._opened()
            asked = True
            toolbox = await self._api.toolbox(await self._created(name, lease))
            link = Link(await daytona_pty.start(toolbox, package().command("python3"), self.workspace), "daytona")
            await link.open(package(), "python3")
        except BaseException:
            with anyio.CancelScope(shield=True):
                if link is not None:
                    await link.aclose()
                if asked:
                    await self._delete(name)
                if not self._keeps:
                    await self.aclose()
            raise
        self._names[link] = name
        return link

    async def release(self, link: Link) -> None:
        """Deletes the sandbox."""
        with anyio.CancelScope(shield=True):
            await link.aclose()
            await self._delete(self._names.pop(link))
            if not self._keeps:
                await self.aclose()

    async def aclose(self) -> None:
        """Closes the client."""
        await self._api.aclose()
        if self._lease is not None:
            self._lease.close(left=self._left)
            self._lease = None

    async def _opened(self) -> str:
        """The name of this harness's lease. The first time, what dead harnesses left is deleted."""
        async with self._opening:
            if self._lease is None:
                await self._check_key()
                self._mounts = [await self._mount(volume) for volume in self._volumes]
                await self._sweep()
                self._lease = take_lease(_SERVICE, self._account)
            return self._lease.name

    async def _check_key(self) -> None:
        try:
            await self._api.request("GET", "/sandbox", what="asking the service", query={"limit": "1"})
        except DaytonaError as error:
            if error.status != 401:
                raise
            raise ConfigError(
                f"sandbox.daytona.api_key_env: Daytona refuses the key in ${self._settings.api_key_env}; make one at "
                f"{_KEYS_PAGE}"
            ) from None

    async def _mount(self, volume: Volume) -> Mapping[str, str]:
        name = volume.source
        try:
            found = await self._api.request("GET", f"/volumes/by-name/{name}", what=f"finding the volume {name}")
        except DaytonaError as error:
            if error.status != 404:
                raise
            raise ConfigError(
                f"sandbox.volumes: {name}: your account at Daytona has no such volume; create it: "
                f"daytona volume create {name}"
            ) from None
        if found["state"] != "ready":
            raise ConfigError(f"sandbox.volumes: {name}: the volume is not ready at Daytona: {found['state']}")
        return {"volumeId": found["id"], "mountPath": str(volume.target)}

    async def _sweep(self) -> None:
        """Deletes the sandboxes of dead harnesses of this user on this machine."""
        for lease in dead_leases(_SERVICE, self._account):
            left = True
            try:
                found = await self._api.listed({LABEL: "sandbox", LEASE_LABEL: lease.name})
                left = not all([await self._delete(str(each["id"]), sweeping=True) for each in found])
            finally:
                lease.close(left=left)

    async def _created(self, name: str, lease: str) -> Mapping[str, Any]:
        """A sandbox that has started. Raises `SandboxError`."""
        settings = self._settings
        minutes = -(-settings.max_seconds // 60)
        asked: dict[str, Any] = {
            "name": name,
            "labels": {LABEL: "sandbox", LEASE_LABEL: lease},
            "env": {},
            "public": False,
            "networkBlockAll": True,
            # Stops when nothing is connected, and is then deleted; deleted in any case when its time is up.
            "autoStopInterval": minutes,
            "autoDeleteInterval": 0,
            "ttlMinutes": minutes,
            "volumes": list(self._mounts),
            **self._made_of,
        }
        if settings.target:
            asked["target"] = settings.target
        sandbox = await self._api.request("POST", "/sandbox", asked, what="creating a sandbox")
        wait, longest = _POLL_SECONDS
        try:
            with anyio.fail_after(_START_SECONDS):
                while (state := sandbox.get("state")) != "started":
                    if state in _GONE:
                        why = " ".join(str(sandbox.get("errorReason") or "no reason given").split())
                        raise SandboxError(f"sandbox: daytona: a sandbox did not start: {state}: {why}")
                    await anyio.sleep(wait)
                    wait = min(wait * 1.1, longest)
                    sandbox = await self._api.request("GET", f"/sandbox/{sandbox['id']}", what="awaiting a sandbox")
        except TimeoutError:
            state = sandbox.get("state")
            raise SandboxError(
                f"sandbox: daytona: a sandbox did not start within {_START_SECONDS:g} seconds: {state}"
            ) from None
        if sandbox.get("networkBlockAll") is not True:
            raise SandboxError("sandbox: daytona: the service did not block the network of a sandbox")
        return dict(sandbox)

    async def _delete(self, name: str, *, sweeping: bool = False) -> bool:
        """Deletes a sandbox. Where that fails, the next run does it, or the service when its time is up."""
        with anyio.move_on_after(_DELETE_SECONDS):
            try:
                await self._api.request("DELETE", f"/sandbox/{name}", what="deleting a sandbox")
                return True
            except DaytonaError as error:
                if error.status == 404:
                    return True
                _log.warning("%s; the next run deletes it, or Daytona when its time is up", error)
        self._left = self._left or not sweeping
        return False


def _api(config: SandboxConfig) -> DaytonaApi:
    settings = config.daytona
    if not re.match(r"https?://[^/]", settings.api_url):
        raise ConfigError(f"sandbox.daytona.api_url: {settings.api_url!r} is not an address; give https://HOST/api")
    if not (key := os.environ.get(settings.api_key_env, "").strip()):
        raise ConfigError(
            f"sandbox.daytona.api_key_env: ${settings.api_key_env} is not set; make a key at {_KEYS_PAGE} that may "
            f"write and delete sandboxes, then: export {settings.api_key_env}=..."
        )
    return DaytonaApi(settings.api_url, key)


def _account(config: SandboxConfig) -> Mapping[str, str]:
    """The service and a digest of the key."""
    settings = config.daytona
    key = os.environ.get(settings.api_key_env, "").strip()
    return {"url": settings.api_url, "key": hashlib.sha256(key.encode()).hexdigest()[:16]}


def _made_of(config: SandboxConfig) -> Mapping[str, Any]:
    """The fields of a request that say what a sandbox is made of, as the SDK gives them."""
    gpus = _gpus(config.gpu)
    if snapshot := config.daytona.snapshot:
        if gpus:
            raise ConfigError(
                f"sandbox.gpu: {config.gpu}: the snapshot {snapshot} decides on GPUs; remove sandbox.gpu or "
                "sandbox.daytona.snapshot"
            )
        return {"snapshot": snapshot}
    if not _IMAGE.fullmatch(config.image):
        raise ConfigError(
            f"sandbox.image: {config.image}: with daytona give an image of a registry, such as python:3.11-slim, or "
            "set sandbox.daytona.snapshot"
        )
    resources = {"memory": -(-config.memory_mb // 1024), "disk": -(-config.disk_mb // 1024) + 1}
    return {"buildInfo": {"dockerfileContent": f"FROM {config.image}\n"}, **resources, **gpus}


def _gpus(asked: str) -> Mapping[str, Any]:
    if asked in ("", "any"):
        return {"gpu": 1} if asked else {}
    types = asked.split(",")
    for each in types:
        if each not in GPUS:
            raise ConfigError(f"sandbox.gpu: {each!r}: with daytona give any, or of these: {', '.join(GPUS)}")
    return {"gpu": 1, "gpuType": types}


def _volumes(config: SandboxConfig) -> Sequence[Volume]:
    found = named_volumes_of(config)
    for volume in found:
        if volume.read_only:
            raise ConfigError(
                f"sandbox.volumes: {volume.source}:{volume.target}:ro: Daytona has no read-only volumes; remove :ro"
            )
        if any(volume.target.is_relative_to(each) for each in _NOT_MOUNTED):
            raise ConfigError(f"sandbox.volumes: {volume.target}: Daytona mounts nothing there; choose another target")
    return found
