"""A real Docker Engine and an image for the tests, on a machine that may have neither an engine nor a registry.

Where no engine answers, one is started that all test processes of this machine share. Each holds a shared lock for as
long as it lives; a watcher ends the engine once the last has gone, however it went. What was built stays on disk.
"""

import fcntl
import functools
import importlib.util
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.errors import SandboxError
from hermes_lab.sandbox.docker_engine import engine

_IMAGE = "hermes-lab-test:latest"
_HOME = Path(f"/tmp/hermes-lab-test-docker-{os.geteuid()}")
_HOST = f"unix://{_HOME}/docker.sock"
_START_SECONDS = 60
_PROGRAMS = """
bash sh setpriv setsid unshare mount timeout env true false cat ls cp mv rm mkdir rmdir ln touch chmod chown mkfifo
mknod readlink realpath stat sort uniq head tail wc cut tr tee seq sleep date id whoami basename dirname dd df du od cmp
diff expr printf echo pwd test nproc uname yes truncate mktemp sync md5sum sha256sum base64 nohup grep sed awk find
xargs ps kill pgrep pkill pidof free tar gzip
"""
_PASSWD = "root:x:0:0::/:/bin/bash\nnobody:x:65534:65534::/:/bin/false\n"

# Runs dockerd until nobody holds the shared lock any more. The lock of whoever started it is not inherited.
_WATCHER = """
import fcntl, subprocess, sys
users, log, *command = sys.argv[1:]
engine = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=open(log, "w"), stderr=subprocess.STDOUT)
with open(users) as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    engine.terminate()
    engine.wait()
"""


@functools.cache
def docker_config() -> SandboxConfig | None:
    """A configuration for a real container, whose engine and image are there; None where `why_not` says why not."""
    return None if why_not() else SandboxConfig(backend="docker", image=_IMAGE)


def needed_config() -> SandboxConfig:
    """The same; a test that needs it is skipped with the reason where there is none."""
    return docker_config() or pytest.skip(why_not())


@functools.cache
def why_not() -> str:
    """Why this machine cannot run the tests of docker; empty where it can."""
    if importlib.util.find_spec("docker") is None:
        return "no Docker SDK: pip install 'hermes-lab[docker]'"
    _HOME.mkdir(mode=0o755, exist_ok=True)
    try:
        with _locked(_HOME / "start"):
            if not _answers() and (reason := _start_engine()):
                return reason
            _build_image()
    except SandboxError as error:
        return str(error)
    return ""


def _answers() -> bool:
    try:
        engine()
    except SandboxError:
        return False
    return True


def _start_engine() -> str:
    """Joins the engine that the tests share, or starts it; the reason where that is not possible."""
    users = os.open(_HOME / "users", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)  # for the life of this process
    fcntl.flock(users, fcntl.LOCK_SH)  # waits for a watcher that is just ending its engine
    os.environ["DOCKER_HOST"] = _HOST
    if _answers():
        return ""
    dockerd = shutil.which("dockerd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if dockerd is None or os.geteuid() != 0:
        return "no Docker Engine answers, and only root with dockerd (Debian: apt-get install docker.io) can start one"
    folders = ["--data-root", f"{_HOME}/data", "--exec-root", f"{_HOME}/exec", "--pidfile", f"{_HOME}/pid"]
    network = ["--bridge=none", "--iptables=false", "--ip6tables=false"]
    watcher = [sys.executable, "-c", _WATCHER, f"{_HOME}/users", f"{_HOME}/log"]
    detached = ["setsid", "sh", "-c", '"$@" </dev/null >/dev/null 2>&1 &', "sh"]
    subprocess.run([*detached, *watcher, dockerd, *network, *folders, "--host", _HOST], check=True)
    deadline = time.monotonic() + _START_SECONDS
    while not _answers():
        if time.monotonic() > deadline:
            return f"dockerd did not start; the end of {_HOME}/log: {(_HOME / 'log').read_text()[-300:]}"
        time.sleep(0.1)
    return ""


def _build_image() -> None:
    client = engine()
    if client.images(_IMAGE):
        return
    archive = _HOME / "image.tar"
    with tarfile.open(archive, "w") as tar:
        _add_system(tar)
    name, tag = _IMAGE.split(":")
    client.import_image_from_file(str(archive), repository=name, tag=tag)
    archive.unlink()


def _add_system(tar: tarfile.TarFile) -> None:
    """A root file system of this machine's programs, Python, and the libraries that they load."""
    for name in ("bin", "sbin", "lib", "lib64"):
        if (link := Path("/") / name).is_symlink():
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, str(link.readlink())
            tar.addfile(entry)
    for name, mode in {"tmp": 0o1777, "proc": 0o755, "sys": 0o755, "dev": 0o755, "run": 0o755}.items():
        entry = tarfile.TarInfo(name)
        entry.type, entry.mode = tarfile.DIRTYPE, mode
        tar.addfile(entry)
    for name, text in {"etc/passwd": _PASSWD, "etc/group": "root:x:0:\nnogroup:x:65534:\n"}.items():
        entry = tarfile.TarInfo(name)
        entry.size = len(text)
        tar.addfile(entry, io.BytesIO(text.encode()))
    programs = [Path(found) for name in _PROGRAMS.split() if (found := shutil.which(name, path="/usr/bin:/bin"))]
    python = Path(shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable)  # a home is out of reach
    library = Path(_output([str(python), "-c", "import os; print(os.path.dirname(os.__file__))"]).strip())
    modules = [path for path in library.rglob("*") if path.is_file() and not _is_left_out(path.relative_to(library))]
    shared = [path for path in modules if path.suffix == ".so"]
    for path in sorted(
        {_place(path) for path in (*programs, python, *modules, *_libraries([*programs, python, *shared]))}
    ):
        tar.add(path.resolve(), str(path).lstrip("/"))
    link_to_python = tarfile.TarInfo("usr/bin/python3")
    if _place(python) != Path("/usr/bin/python3"):
        link_to_python.type, link_to_python.linkname = tarfile.SYMTYPE, str(python)
        tar.addfile(link_to_python)


def _is_left_out(path: Path) -> bool:
    """Parts of the standard library that no test needs."""
    return bool({"test", "idlelib", "tkinter", "site-packages", "dist-packages", "ensurepip"} & set(path.parts)) or (
        path.parts[0].startswith("config-")
    )


def _libraries(files: Iterable[Path]) -> Iterator[Path]:
    for path in set(re.findall(r"(?:=> |^\s+)(/\S+) \(0x", _output(["ldd", *map(str, files)]), re.MULTILINE)):
        yield Path(path)


def _output(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def _place(path: Path) -> Path:
    """Where a file lies once the links among its folders are followed; it keeps its own name."""
    return path.parent.resolve() / path.name


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
