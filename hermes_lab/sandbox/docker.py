"""The Docker backend: one warm container per episode with a warm shell, no network, a read-only system."""

import functools
import os
import signal
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Self

from hermes_lab.config.schema import SandboxConfig
from hermes_lab.errors import SandboxError
from hermes_lab.sandbox import launch
from hermes_lab.sandbox.descendants import descendants
from hermes_lab.sandbox.docker_attach import Attached
from hermes_lab.sandbox.docker_engine import OWNER_LABEL, engine, explained, in_thread, owner
from hermes_lab.sandbox.docker_seccomp import seccomp_profile
from hermes_lab.sandbox.folders import EpisodeFolders, harness_folder, remove_tree
from hermes_lab.sandbox.warm import WarmSandbox
from hermes_lab.sandbox.workspace import SKILLS, WORKSPACE

_TMP_MB, _SHM_MB = 256, 64
_ROOTS = "/run/hermes-lab"  # a folder accessible only to root, in which the exchange folder is mounted
_EXCHANGE = f"{_ROOTS}/exchange"


class DockerSandbox(WarmSandbox):
    """One container for a whole episode; a warm shell in it starts each command as a separate process.

    The image must exist locally: nothing is ever pulled.
    """

    _start_seconds = 60.0
    _kill_seconds = 10.0
    _appended = False
    _limit_notices: ClassVar = {
        "oom": "[out of memory: all processes together may have {config.memory_mb} MB, /tmp included; one was killed]",
        "restarted": "[out of memory: all processes together may have {config.memory_mb} MB, /tmp included; every one "
        "was killed, those in the background too, and /tmp is empty]",
        "crowded": "[background processes filled the limit of {config.processes} processes, and were killed]",
    }

    def __init__(self, config: SandboxConfig) -> None:
        super().__init__(config)
        self._attached: Attached | None = None

    async def __aenter__(self) -> Self:
        self._client = await in_thread(engine)
        return await super().__aenter__()

    def processes(self) -> Sequence[int]:
        """See `WarmSandbox.processes`; empty if they are not visible."""
        try:
            is_ours = (
                self._id in Path(f"/proc/{self._pid}/cgroup").read_text()
            )  # and not another process that reuses the pid
        except OSError:
            return ()
        return descendants(self._pid) if is_ours else ()

    def scratch_bytes(self) -> int:
        """Always 0: the container's memory limit covers /tmp too."""
        return 0

    @property
    def _name(self) -> str:
        """The container's name, from the harness's folder and the episode's."""
        return "-".join(self.folders.exchange.parts[-3:-1])

    def _open_folders(self) -> EpisodeFolders:
        return _make_folders()

    def _open_exchange(self) -> Path:
        return _make_exchange()

    async def _start(self) -> None:
        await in_thread(self._launch)

    def _launch(self) -> None:
        """Creates and starts the container. Attaches before the start, so that no output is missed. Blocks."""
        with explained(self.config.image):
            told = _container(self._client, self.folders, self.config)
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


def _make_folders() -> EpisodeFolders:
    """Creates an episode's folders inside one accessible only to this user."""
    exchange = _make_exchange()
    workspace, skills = exchange.with_name("workspace"), exchange.with_name("skills")
    for folder in (workspace, skills):
        folder.mkdir()
        folder.chmod(0o755)
        if (uid := launch.owner()) is not None:
            os.chown(folder, uid, uid)
    return EpisodeFolders(workspace, exchange, skills)


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


def _container(client: Any, folders: EpisodeFolders, config: SandboxConfig) -> dict[str, Any]:
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
        ],
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
