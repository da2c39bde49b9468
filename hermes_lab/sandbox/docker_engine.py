"""The local Docker Engine: finds and checks it, calls it from threads, and removes containers of dead harnesses.

The engine must run on this machine without remapping uids: a workspace is a local folder written by both container and
harness.
"""

import functools
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread

from hermes_lab.errors import SandboxError

OWNER_LABEL = "hermes-lab.owner"

T = TypeVar("T")
_AT_ONCE = 16  # concurrent calls; more make the engine slower
_POOL = 64
_SECONDS = 60
_DEFAULT_HOST = "unix:///var/run/docker.sock"
_NO_SDK = "sandbox: no Docker SDK: pip install 'hermes-lab[docker]'"
_lock = threading.Lock()
_limiter: anyio.lowlevel.RunVar[anyio.CapacityLimiter] = anyio.lowlevel.RunVar("docker limiter")


async def in_thread(call: Callable[[], T]) -> T:
    """Runs a blocking engine call to its end, even when cancelled."""
    try:
        limiter = _limiter.get()
    except LookupError:
        limiter = anyio.CapacityLimiter(_AT_ONCE)
        _limiter.set(limiter)
    return await anyio.to_thread.run_sync(call, limiter=limiter)


def engine() -> Any:
    """The process's client (`docker.APIClient`). Raises `SandboxError` if there is no usable engine. Blocks."""
    with _lock:
        return _connect(os.environ.get("DOCKER_HOST") or _DEFAULT_HOST, os.getpid())


def describe() -> str:
    """A short description of the engine, for `doctor`. Raises `SandboxError` if there is none. Blocks."""
    client = engine()
    return f"Docker Engine {client.version()['Version']} at {os.environ.get('DOCKER_HOST') or _DEFAULT_HOST}"


@contextmanager
def explained(image: str = "") -> Iterator[None]:
    """Turns any engine failure into a `SandboxError` of one line."""
    import requests
    from docker.errors import APIError, DockerException, ImageNotFound

    try:
        yield
    except ImageNotFound:
        raise SandboxError(f"sandbox: the Docker Engine has no image {image}: docker pull {image}") from None
    except APIError as error:
        raise SandboxError(f"sandbox: docker: {_hint(_one_line(error.explanation or error), image)}") from None
    except (DockerException, requests.RequestException, OSError) as error:
        raise SandboxError(f"sandbox: the Docker Engine does not answer: {_one_line(error)}") from None


def owner() -> str:
    """An identifier of this process that is unique on this machine, even across reboots."""
    pid = os.getpid()
    return f"{_boot()} {_namespace()} {pid} {_start_time(pid)}"


@functools.lru_cache
def _connect(host: str, pid: int) -> Any:  # a forked child must not share its parent's connections
    del pid
    try:
        import docker
    except ImportError:
        raise SandboxError(_NO_SDK) from None
    _check_socket(host)
    try:
        client = docker.APIClient(base_url=host, version="auto", timeout=_SECONDS, max_pool_size=_POOL)
        security = client.info().get("SecurityOptions") or []
    except docker.errors.DockerException as error:
        raise SandboxError(f"sandbox: the server at {host} is not a Docker Engine: {_one_line(error)}") from None
    if any(option.startswith(("name=rootless", "name=userns")) for option in security):
        raise SandboxError(
            f"sandbox: the engine at {host} is rootless or remaps uids, so harness and container cannot share a"
            " workspace: use backend=bubblewrap, which needs no root either"
        )
    with explained():
        _sweep(client)
    return client


def _check_socket(host: str) -> None:
    if not host.startswith("unix://"):
        raise SandboxError(f"sandbox: DOCKER_HOST={host}: the engine must be this machine's own, at a unix:// socket")
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(host.removeprefix("unix://"))
    except PermissionError:
        raise SandboxError(
            f"sandbox: {host}: permission denied: add yourself to the group docker (usermod -aG docker USER), which is"
            " as good as root, and log in again"
        ) from None
    except OSError:
        raise SandboxError(
            f"sandbox: no Docker Engine answers at {host}: install one (Debian: apt-get install docker.io) and start"
            " it, or set DOCKER_HOST to its socket"
        ) from None


def _hint(reason: str, image: str) -> str:
    if "bind source path does not exist" in reason:
        return "the engine does not see this machine's temporary folder; it must run on this machine, in no container"
    if '"bash": executable file not found' in reason:
        return f"{image} has no bash"
    return reason


def _one_line(text: object) -> str:
    return " ".join(str(text).split())


def _sweep(client: Any) -> None:
    """Removes containers of dead harnesses on this machine, never those of a live one."""
    from docker.errors import APIError

    for container in client.containers(all=True, filters={"label": OWNER_LABEL}):
        if _is_dead(container["Labels"][OWNER_LABEL]):
            with suppress(APIError):  # another harness may remove it too
                client.remove_container(container["Id"], v=True, force=True)


def _is_dead(owner: str) -> bool:
    """Whether the process of an `owner` label has ended. Processes of other pid namespaces are not visible."""
    boot, namespace, pid, started = owner.split()
    if boot != _boot():
        return True
    return namespace == _namespace() and _start_time(int(pid)) != started


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _namespace() -> str:
    return str(Path("/proc/self/ns/pid").stat().st_ino)


def _start_time(pid: int) -> str:
    """When a process started, in ticks since boot; empty if it does not exist or is a zombie."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return "" if state in "ZX" else fields[18]
