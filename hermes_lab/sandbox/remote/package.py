"""What is sent to another machine: the worker, the sandboxes and anyio, as an archive of modules."""

import functools
import hashlib
import importlib.util
import io
import shlex
import tarfile
from collections.abc import Iterator
from pathlib import Path

from hermes_lab.sandbox.remote.worker import READY

OLDEST = (3, 11)
"""The oldest Python that runs the worker."""
_MODULES = (
    "errors.py",
    "protocols.py",
    "text/clip.py",
    *(
        f"sandbox/{name}.py"
        for name in (
            *("archive", "bubblewrap", "descendants", "etc", "exchange", "extras", "folders", "launch", "local"),
            *("meter", "network", "piped", "process", "rooted", "seccomp", "shell", "spawn", "warm", "workspace"),
        )
    ),
    "sandbox/session.sh",
    "sandbox/remote/frames.py",
    "sandbox/remote/worker.py",
)
_PACKAGES = ("", "text", "sandbox", "sandbox/remote")
_LIBRARIES = ("anyio", "idna", "typing_extensions")
_UNUSED = ("_trio.py", "pytest_plugin.py")

# Runs in any Python, so that an old one can say so. The archive is sent only if that machine does not have it yet.
_BOOT = """
import os, sys
out = os.fdopen(os.dup(1), "wb", 0)
say = lambda text: out.write(("\\nhermes-lab %s\\n" % text).encode())
if sys.version_info < {oldest}:
    say("old " + sys.version.split()[0]); sys.exit(3)
import shutil, tarfile, tempfile
base = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "hermes-lab", "worker")
try: os.makedirs(base, 0o700, exist_ok=True)
except OSError: base = tempfile.mkdtemp()
place = os.path.join(base, {digest!r})
try:
    if not os.path.isdir(place):
        fresh = tempfile.mkdtemp(dir=base)
        say("send")
        size, data = {size}, b""
        while len(data) < size:
            more = os.read(0, min(1 << 20, size - len(data)))
            if not more: sys.exit(3)
            data += more
        import io
        tarfile.open(fileobj=io.BytesIO(data)).extractall(fresh)
        try: os.rename(fresh, place)
        except OSError: shutil.rmtree(fresh)
    else: say("has")
except OSError as error:
    say("failed %s: %s" % (error.filename, error.strerror)); sys.exit(3)
sys.path.insert(0, place)
from hermes_lab.sandbox.remote.worker import run
run()
"""


class Package:
    """The archive, and the command that starts the worker from it."""

    def __init__(self) -> None:
        self.data = _archive()
        self.digest = hashlib.sha256(self.data).hexdigest()[:32]

    def command(self, python: str) -> str:
        """The shell command that starts the worker; `python` is the interpreter there."""
        code = _BOOT.format(oldest=OLDEST, digest=self.digest, size=len(self.data))
        return f"exec {shlex.quote(python)} -I -S -c {shlex.quote(code)}"


@functools.cache
def package() -> Package:
    """The package, which depends on the installation alone."""
    return Package()


SAYS = b"\nhermes-lab "
"""The first output of a starting worker. The last is `READY`."""
assert READY.startswith(SAYS)


def _archive() -> bytes:
    """A tar archive, the same bytes for the same modules."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=6) as tar:
        for name, data in sorted(_files()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o644
            tar.addfile(entry, io.BytesIO(data))
    whole = bytearray(buffer.getvalue())
    whole[4:8] = b"\0\0\0\0"  # gzip's time
    return bytes(whole)


def _files() -> Iterator[tuple[str, bytes]]:
    root = Path(__file__).parents[2]
    for package in _PACKAGES:
        yield f"hermes_lab/{package}/__init__.py".replace("//", "/"), b""
    for module in _MODULES:
        yield f"hermes_lab/{module}", (root / module).read_bytes()
    for library in _LIBRARIES:
        spec = importlib.util.find_spec(library)
        if spec is None or spec.origin is None:
            continue
        origin = Path(spec.origin)
        if origin.name != "__init__.py":
            yield origin.name, origin.read_bytes()
            continue
        for path in origin.parent.rglob("*.py"):
            if path.name not in _UNUSED:
                yield f"{library}/{path.relative_to(origin.parent)}", path.read_bytes()
