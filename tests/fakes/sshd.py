"""A real OpenSSH server on a port of this machine, for this user."""

import getpass
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from hermes_lab.config.sandboxes import SandboxConfig, SshConfig

_CONFIG = """
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host
AuthorizedKeysFile {folder}/authorized
PidFile {folder}/pid
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
StrictModes no
UsePAM no
MaxStartups 200
Subsystem sftp internal-sftp
"""


class Sshd(NamedTuple):
    """The server: its port, the folder with its keys and log, and its process."""

    port: int
    folder: Path
    pid: int

    def config(self, **fields: object) -> SandboxConfig:
        """Sandboxes on this machine by way of the server; `fields` are those of `sandbox.ssh`."""
        ssh = {
            "host": "127.0.0.1",
            "port": self.port,
            "user": getpass.getuser(),
            "key_file": str(self.folder / "client"),
            "known_hosts": str(self.folder / "known_hosts"),
            "python": "/usr/bin/python3",
            **fields,
        }
        return SandboxConfig(backend="ssh", ssh=SshConfig.model_validate(ssh))

    def children(self) -> list[int]:
        """The processes that serve connections."""
        found = subprocess.run(["pgrep", "-P", str(self.pid)], capture_output=True, text=True, check=False).stdout
        return [int(pid) for pid in found.split()]

    def kill_children(self) -> None:
        """Cuts all connections, as a reboot would."""
        for pid in self.children():
            for each in [*_below(pid), pid]:
                try:
                    os.kill(each, signal.SIGKILL)
                except ProcessLookupError:
                    continue


def _below(pid: int) -> list[int]:
    """The sshd processes below one, not what they have started."""
    found = subprocess.run(["pgrep", "-P", str(pid), "sshd"], capture_output=True, text=True, check=False).stdout
    return [int(each) for each in found.split()]


@contextmanager
def running_sshd() -> Iterator[Sshd]:
    """Starts the server; skips the test, with the reason, where there is none."""
    program = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        pytest.skip("no sshd: apt-get install openssh-server")
    folder = Path(tempfile.mkdtemp(prefix="hermes-lab-sshd-"))
    try:
        for name in ("host", "client"):
            keygen = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
            subprocess.run(keygen, check=True)
        shutil.copy(folder / "client.pub", folder / "authorized")
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        key = (folder / "host.pub").read_text().split()
        (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {key[0]} {key[1]}\n")
        (folder / "config").write_text(_CONFIG.format(port=port, folder=folder))
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        command = [program, "-D", "-e", "-f", str(folder / "config")]
        with (folder / "log").open("wb") as log, subprocess.Popen(command, stderr=log) as process:
            try:
                _wait(port, folder)
                yield Sshd(port, folder, process.pid)
            finally:
                process.terminate()
    finally:
        shutil.rmtree(folder)


def _wait(port: int, folder: Path) -> None:
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise AssertionError(f"sshd did not start: {(folder / 'log').read_text()[-500:]}")
