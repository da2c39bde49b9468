"""The apptainer backend: a container for each episode, without root, for batch clusters.

The container runs the lab's worker (`hermes_lab.sandbox.remote`), and the worker runs the agent's commands.
"""

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.abc
import anyio.to_thread

from hermes_lab.config.sandboxes import Promise, SandboxConfig
from hermes_lab.errors import ConfigError, SandboxError
from hermes_lab.sandbox.folders import harness_folder, remove_tree
from hermes_lab.sandbox.remote.link import Link
from hermes_lab.sandbox.remote.package import package
from hermes_lab.sandbox.volumes import volumes_of
from hermes_lab.sandbox.workspace import WORKSPACE

PROGRAMS = ("apptainer", "singularity")
_KEPT_ERRORS = 1 << 14
_GPUS = {"nvidia": "--nv", "rocm": "--rocm"}
_ESCAPES = "a process that clears its environment (env -i) escapes the limits until its container ends"
UNKEPT: Mapping[Promise, str] = {
    "verifier": "commands run as the same user as the verifier's in a container, and could interfere with them",
    "memory": _ESCAPES,
    "disk": _ESCAPES,
    "processes": "no limit on the number of processes but that of your user",
}
"""The promises that are not kept in a container whose user is also that of the worker."""


def find_apptainer() -> str:
    """The program. Raises `ConfigError` if it is not installed."""
    for name in PROGRAMS:
        if found := shutil.which(name):
            return found
    raise ConfigError(f"apptainer is not installed: no {' or '.join(PROGRAMS)} on the PATH", "sandbox.backend")


class ApptainerMachine:
    """A container with one worker for each sandbox."""

    kind = "local"
    workspace = str(WORKSPACE)

    def __init__(self, config: SandboxConfig) -> None:
        self._config = config
        self._program = find_apptainer()
        self._image = _checked(config.image)
        self._volumes = volumes_of(config)
        if config.gpu and config.gpu not in _GPUS:
            raise ConfigError(f"sandbox.gpu: {config.gpu!r}: with apptainer give {' or '.join(_GPUS)}")

    async def acquire(self) -> Link:
        """See `Machine.acquire`."""
        folder = Path(tempfile.mkdtemp(prefix="apptainer-", dir=harness_folder(None)))
        try:
            process = await anyio.open_process(self._command(folder), start_new_session=True)
        except OSError as error:
            remove_tree(folder)
            raise SandboxError(f"sandbox: {self._program}: {error.strerror}") from None
        container = _Container(process, folder)
        link = Link(container, "apptainer")
        try:
            await link.open(package(), "python3")
        except BaseException:
            await link.aclose()
            raise
        return link

    async def release(self, link: Link) -> None:
        """Ends the container."""
        await link.aclose()

    def _command(self, workspace: Path) -> Sequence[str]:
        binds = [f"{workspace}:{WORKSPACE}"]
        binds += [f"{each.source}:{each.target}:{'ro' if each.read_only else 'rw'}" for each in self._volumes]
        gpu = [_GPUS[self._config.gpu]] if self._config.gpu else []
        isolation = ["--containall", "--cleanenv", "--no-home", "--no-privs", "--net", "--network", "none"]
        environment = ["--env", "XDG_CACHE_HOME=/tmp/.cache", "--env", "LANG=C.UTF-8"]
        mounts = [part for bind in binds for part in ("--bind", bind)]
        inside = ["/bin/sh", "-c", package().command("python3")]
        return [
            *(self._program, "--silent", "exec", *isolation, *gpu, *environment, *mounts),
            *("--pwd", str(WORKSPACE), self._image, *inside),
        ]


def _checked(image: str) -> str:
    """The image as apptainer takes it. Raises `ConfigError` for one that does not exist here: nothing is ever
    pulled in a run."""
    if "://" in image:
        name = image.partition("://")[2].replace("/", "_").replace(":", "_")
        raise ConfigError(
            f"sandbox.image: {image} would be pulled in each episode; pull it once: apptainer pull {name}.sif {image}; "
            f"then set sandbox.image={name}.sif"
        )
    path = Path(image).expanduser()
    if not path.exists():
        raise ConfigError(
            f"sandbox.image: {image}: no such .sif file or folder; get one with: apptainer pull python.sif "
            "docker://python:3.11-slim"
        )
    return str(path.absolute())


class _Container:
    """See `ByteStream`. Ends with its container; the folder of its workspace is removed."""

    def __init__(self, process: anyio.abc.Process, folder: Path) -> None:
        self._process = process
        self._folder = folder
        self._stderr = b""

    async def send(self, data: bytes) -> None:
        """See `ByteStream.send`."""
        assert self._process.stdin is not None
        try:
            await self._process.stdin.send(data)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            raise OSError(str(error) or "the container has ended") from None

    async def receive(self) -> bytes:
        """See `ByteStream.receive`."""
        assert self._process.stdout is not None
        try:
            return await self._process.stdout.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            assert self._process.stderr is not None
            with suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                with anyio.move_on_after(1):
                    self._stderr = (await self._process.stderr.receive(_KEPT_ERRORS))[-_KEPT_ERRORS:]
            return b""

    def errors(self) -> str:
        """See `ByteStream.errors`."""
        return self._stderr.decode(errors="replace")

    async def aclose(self) -> None:
        """See `ByteStream.aclose`."""
        with anyio.CancelScope(shield=True):
            with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
                assert self._process.stdin is not None
                await self._process.stdin.aclose()
            with anyio.move_on_after(5):
                await self._process.wait()
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, 9)
            await self._process.wait()
            with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
                await self._process.aclose()
            await anyio.to_thread.run_sync(remove_tree, self._folder)
