"""The Docker backend: one warm container per episode with a warm shell, no network, a read-only system."""

import functools
import os
import signal
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, Self

from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.errors import ConfigError, SandboxError
from hermes_lab.sandbox import launch
from hermes_lab.sandbox.descendants import descendants
from hermes_lab.sandbox.docker_attach import Attached
from hermes_lab.sandbox.docker_engine import OWNER_LABEL, engine, explained, in_thread, owner
from hermes_lab.sandbox.docker_seccomp import seccomp_profile
from hermes_lab.sandbox.extras import HOME, NOTHING_MORE, ROOTED_HOME, Extras
from hermes_lab.sandbox.folders import EpisodeFolders, harness_folder, remove_tree
from hermes_lab.sandbox.volumes import volumes_of
from hermes_lab.sandbox.warm import WarmSandbox
from hermes_lab.sandbox.workspace import ROOTED_SKILLS, SKILLS, WORKSPACE, WorkspaceFolder
from hermes_lab.types import Root

_TMP_MB, _SHM_MB = 256, 64
_ROOTS = "/run/hermes-lab"  # a folder accessible only to root, in which the exchange folder is mounted
_EXCHANGE = f"{_ROOTS}/exchange"
_NOBODYS = 65533  # a uid that no command has


class DockerSandbox(WarmSandbox):
    """One container for a whole episode; a warm shell in it starts each command as a separate process.

    The image must exist locally: nothing is ever pulled.
    """

    _start_seconds = 60.0
    _kill_seconds = 10.0
    _appended = False
    _limit_notices: ClassVar = {
        "oom": "[out of memory: the limit for all processes and /tmp is {config.memory_mb} MB; one process was killed]",
        "restarted": "[out of memory: the limit for all processes and /tmp is {config.memory_mb} MB; all processes "
        "were killed, background ones too, and /tmp is now empty]",
        "crowded": "[background processes filled the limit of {config.processes} processes, and were killed]",
    }

    def __init__(self, config: SandboxConfig, extras: Extras = NOTHING_MORE, root: Root | None = None) -> None:
        super().__init__(config, extras, root)
        if root is not None and os.geteuid() != 0:
            raise ConfigError(
                "sandbox.backend: docker runs a task's own image only for root, who can remove the files that its root"
                " leaves in the workspace"
            )
        volumes_of(config)  # reports their errors before a run
        self._attached: Attached | None = None

    async def __aenter__(self) -> Self:
        self._client = await in_thread(engine)
        return await super().__aenter__()

    @property
    def owner(self) -> int | None:
        """As in other sandboxes, but root where the commands are."""
        return super().owner if self.root is None else 0

    def processes(self) -> Sequence[int]:
        """See `WarmSandbox.processes`; empty if they are not visible."""
        return descendants(self._pid) if self._is_there() else ()

    def _is_there(self) -> bool:
        """Whether process 1 lives, and its pid is not another process's by now."""
        try:
            return self._id in Path(f"/proc/{self._pid}/cgroup").read_text()
        except OSError:
            return False

    def scratch_bytes(self) -> int:
        """Always 0: the container's memory limit covers /tmp too."""
        return 0

    @property
    def _name(self) -> str:
        """The container's name, from the harness's folder and the episode's."""
        return "-".join(self.folders.exchange.parts[-3:-1])

    @property
    def home(self) -> WorkspaceFolder:
        """See `Sandbox.home`."""
        if self.root is None or self.folders.home is None:
            return super().home
        return WorkspaceFolder(self.folders.home, None, ROOTED_HOME)

    def _network_of(self) -> int:
        if not self._is_there():
            raise SandboxError("sandbox: it was killed")
        return int(self._pid)

    def _open_folders(self) -> EpisodeFolders:
        folders = _make_folders(self.extras)
        if self.root is not None and folders.home:  # its commands are root, without the right to write others' files
            os.chown(folders.home, 0, 0)
        return folders

    def _open_exchange(self) -> Path:
        return _make_exchange()

    async def _start(self) -> None:
        await in_thread(self._launch)

    def _launch(self) -> None:
        """Creates and starts the container. Attaches before the start, so that no output is missed. Blocks."""
        with explained(self.config.image):
            told = _container(self._client, self.folders, self.config, self.extras)
            if self.root is not None:
                told |= _rooted(self._client, told["host_config"], self.folders, self.root, self.extras)
            self._id = self._client.create_container(name=self._name, **told)["Id"]
            self._run_container()

    def _run_container(self) -> None:
        streams = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
        self._attached = Attached(self._client.attach_socket(self._name, params=streams))
        self._client.start(self._name)
        self._pid = self._client.inspect_container(self._name)["State"]["Pid"]

    def _restart(self) -> None:
        """Restarts the container with its folders and the shell's state unchanged. Blocks."""
        assert self._attached is not None
        with explained():
            self._client.wait(self._name)
            self._attached.close()
            self._run_container()

    def _send(self, line: bytes) -> None:
        assert self._attached is not None
        self._attached.send(line)

    def _replies(self) -> int:
        assert self._attached is not None
        return self._attached.fileno()

    async def _line(self) -> list[str]:
        assert self._attached is not None
        if line := await self._attached.line():
            return line.decode().split()
        why = await in_thread(self._why_ended)
        if not self.busy or why != self._out_of_memory:
            raise SandboxError(f"sandbox: {why}")
        # The kernel kills commands first, but also process 1 if they free memory too slowly. The command is to blame,
        # and the episode continues.
        await in_thread(self._restart)
        await self._be_ready()
        return [str(128 + signal.SIGKILL), "restarted"]

    @property
    def _out_of_memory(self) -> str:
        return f"the container ran out of memory (sandbox.memory_mb={self.config.memory_mb})"

    def _why_ended(self) -> str:
        assert self._attached is not None
        with explained():
            state = self._client.inspect_container(self._name)["State"]
        if state["OOMKilled"]:
            return self._out_of_memory
        if self._attached.errors:
            return f"the image {self.config.image} cannot be used: {self._attached.errors}"
        return "it was killed"

    async def _run(self, timeout: float, *, alone: bool) -> tuple[list[str], bool]:
        said, timed_out = await super()._run(timeout, alone=alone)
        if timed_out:  # it may have been killed before any output
            self._exchange.touch()
        return said, timed_out

    async def _signal(self, number: signal.Signals) -> None:
        await in_thread(lambda: self._kill(number))

    def _kill(self, number: signal.Signals) -> None:
        with explained():
            self._client.kill(self._name, number.name)

    async def _end(self) -> None:
        """Kills all processes of the container, then removes it and its folder."""
        await in_thread(self._remove)

    def _remove(self) -> None:
        if self._attached is not None:
            self._attached.close()
        # There may be no container yet. One that a faulty engine keeps is removed by a later harness.
        with suppress(SandboxError), explained():
            self._client.remove_container(self._name, v=True, force=True)
        remove_tree(self.folders.exchange.parent)  # contains the workspace too, except for a sibling


def _make_folders(extras: Extras) -> EpisodeFolders:
    """Creates an episode's folders inside one accessible only to this user."""
    exchange = _make_exchange()
    workspace, skills, own = (exchange.with_name(name) for name in ("workspace", "skills", "home"))
    for folder in (skills, *([own] if extras.home else []), *([] if extras.workspace else [workspace])):
        folder.mkdir()
        folder.chmod(0o755)
        if (uid := launch.owner()) is not None:
            os.chown(folder, uid, uid)
    return EpisodeFolders(extras.workspace or workspace, exchange, skills, own if extras.home else None)


def _make_exchange() -> Path:
    """Creates a container's exchange folder inside one accessible only to this user."""
    exchange = Path(tempfile.mkdtemp(prefix="docker-", dir=harness_folder(launch.owner()))) / "exchange"
    exchange.mkdir()
    exchange.chmod(0o777)  # written by the container's root, which lacks the capability to override permissions
    for name, content in {"session.sh": _script(), "command": "", "prelude": ""}.items():
        (exchange / name).write_text(content)
        (exchange / name).chmod(0o644)
    return exchange


@functools.cache
def _script() -> str:
    return Path(__file__).with_name("docker_session.sh").read_text()


def _container(client: Any, folders: EpisodeFolders, config: SandboxConfig, extras: Extras) -> dict[str, Any]:
    """The arguments of `create_container`."""
    from docker.types import LogConfig, Mount, Ulimit

    uid, gid = (os.geteuid(), os.getegid()) if launch.owner() is None else (launch.owner(), launch.owner())
    tmp, shm = (min(most, config.memory_mb // 4) for most in (_TMP_MB, _SHM_MB))  # both count towards that memory
    host_config = client.create_host_config(
        network_mode="none",
        ipc_mode="private",
        read_only=True,
        mounts=[
            Mount(str(WORKSPACE), str(folders.workspace), type="bind"),
            Mount(str(SKILLS), str(folders.skills), type="bind", read_only=True),
            Mount(_EXCHANGE, str(folders.exchange), type="bind"),
            *_extra_mounts(folders, extras, HOME),
            *_volumes(config),
        ],
        device_requests=_gpus(config),
        tmpfs={_ROOTS: "mode=700,size=64k", "/tmp": f"exec,nosuid,nodev,mode=1777,size={tmp}m"},
        shm_size=f"{shm}m",
        cap_drop=["ALL"],
        cap_add=["SETUID", "SETGID", "SETPCAP", "KILL"],  # for process 1; commands have none
        security_opt=["no-new-privileges", f"seccomp={seccomp_profile()}"],
        pids_limit=config.processes + 1,  # plus process 1
        mem_limit=f"{config.memory_mb}m",
        memswap_limit=f"{config.memory_mb}m",
        ulimits=[
            Ulimit(name="core", soft=0, hard=0),
            Ulimit(name="fsize", soft=config.file_mb << 20, hard=config.file_mb << 20),
        ],
        log_config=LogConfig(type=LogConfig.types.NONE),
    )
    return {
        "image": config.image,
        "entrypoint": ["bash", f"{_EXCHANGE}/session.sh"],
        "command": [str(uid), str(gid), str(config.processes)],
        "user": "0:0",
        "hostname": "sandbox",
        "working_dir": str(WORKSPACE),
        "environment": {"HOME": str(WORKSPACE), "LANG": "C.UTF-8"},
        "labels": {OWNER_LABEL: owner()},
        "healthcheck": {"test": ["NONE"]},  # an image's own check would run as root
        "stdin_open": True,
        "host_config": host_config,
        "use_config_proxy": False,  # proxies in ~/.docker/config.json may contain passwords
    }


def _volumes(config: SandboxConfig) -> list[Any]:
    from docker.types import Mount

    return [Mount(str(each.target), each.source, type="bind", read_only=each.read_only) for each in volumes_of(config)]


def _gpus(config: SandboxConfig) -> list[Any]:
    """The request for GPUs: all, a number, or device ids."""
    from docker.types import DeviceRequest

    if not config.gpu:
        return []
    if config.gpu == "all" or (config.gpu.isdecimal() and config.gpu != "0"):
        count = -1 if config.gpu == "all" else int(config.gpu)
        return [DeviceRequest(count=count, capabilities=[["gpu"]])]
    ids = [part.strip() for part in config.gpu.split(",")]
    if not all(ids):
        raise ConfigError(f"sandbox.gpu: {config.gpu!r}: give all, a number, or device ids such as 0,1")
    return [DeviceRequest(device_ids=ids, capabilities=[["gpu"]])]


def _extra_mounts(folders: EpisodeFolders, extras: Extras, home: PurePosixPath) -> list[Any]:
    """The mounts of a program: its installation, and its home."""
    from docker.types import Mount

    installed = [Mount(str(path), str(path), type="bind", read_only=True) for path in extras.installed]
    return [*installed, *([Mount(str(home), str(folders.home), type="bind")] if folders.home else [])]


def _rooted(client: Any, host: dict[str, Any], folders: EpisodeFolders, root: Root, extras: Extras) -> dict[str, Any]:
    """What differs in a container for a task with a root of its own: its commands are root, and may write anywhere.

    They have no capability, so the exchange folder lies below a folder of nobody's, which process 1 alone may enter.
    What the image has in the working directory is copied into the workspace, as the engine does for new volumes.
    """
    from docker.types import DriverConfig, Mount

    local = DriverConfig("local", {"type": "none", "o": "bind", "device": str(folders.workspace)})
    mounts = [
        Mount(root.workdir, None, type="volume", driver_config=local),
        Mount(str(ROOTED_SKILLS), str(folders.skills), type="bind", read_only=True),
        Mount(_EXCHANGE, str(folders.exchange), type="bind"),
        *_extra_mounts(folders, extras, ROOTED_HOME),
    ]
    tmpfs = {**host["Tmpfs"], _ROOTS: f"mode=700,size=64k,uid={_NOBODYS},gid={_NOBODYS}"}
    capabilities = [*host["CapAdd"], "DAC_OVERRIDE"]
    changed = {"ReadonlyRootfs": False, "Mounts": mounts, "Tmpfs": tmpfs, "CapAdd": capabilities}
    limits = host["PidsLimit"] - 1
    return {
        "host_config": client.create_host_config() | host | changed,
        "command": ["0", "0", str(limits)],
        "working_dir": root.workdir,
        "environment": {"HOME": "/root", "LANG": "C.UTF-8", **root.environment},
    }
