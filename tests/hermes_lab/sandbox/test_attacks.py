"""What a command may try against the harness and the host, on every backend; `local`, which does not isolate, is the
control: there the attack works, so it is one."""

import platform
import shlex
import socket
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import pytest

from hermes_lab.errors import ToolError
from hermes_lab.protocols import ExecResult, Process, Sandbox
from hermes_lab.sandbox import launch
from hermes_lab.sandbox.extras import Extras

pytestmark = pytest.mark.anyio
SECRET = "hunter2-of-the-host"
WON = "the attack succeeded"
KEYCTL = 250 if platform.machine() == "x86_64" else 219


class Host(NamedTuple):
    """What there is on the host to be attacked; all of it is open to the uid that commands run as."""

    folder: Path
    secret: Path
    victim: subprocess.Popen[bytes]
    marker: str
    tcp: socket.socket
    udp: socket.socket
    abstract: str
    path: Path

    def script(self, text: str) -> str:
        """Fills in the names of what is attacked; a script that gets there prints WON."""
        names = {
            "FOLDER": self.folder,
            "SECRET": self.secret,
            "PID": self.victim.pid,
            "MARKER": self.marker,
            "TCP": self.tcp.getsockname()[1],
            "UDP": self.udp.getsockname()[1],
            "ABSTRACT": self.abstract,
            "PATH": self.path,
            "KEYCTL": KEYCTL,
        }
        for name, value in names.items():
            text = text.replace(f"${name}", str(value))
        return text


def _said_so(host: Host, result: ExecResult) -> bool:
    return WON in result.output.splitlines() or SECRET in result.output


def _planted(host: Host, result: ExecResult) -> bool:
    return (host.folder / "planted").exists()


def _killed_it(host: Host, result: ExecResult) -> bool:
    return host.victim.poll() is not None


def _heard(host: Host, result: ExecResult) -> bool:
    try:
        return host.udp.recv(100) == b"out"
    except TimeoutError:
        return False


class Attack(NamedTuple):
    """A Python script that a command runs, and how to see whether it came through.

    `local_holds`: a limit or habit of the harness stops it there too. `if_allowed`: whether it works without a sandbox
    is up to this machine's kernel, user and network, which is then asked first.
    """

    script: str
    succeeded: Callable[[Host, ExecResult], bool] = _said_so
    limits: dict[str, int] = {}  # noqa: RUF012
    local_holds: bool = False
    if_allowed: bool = False


_CONNECT = "import socket; s = socket.socket(socket.{}, socket.{}); s.settimeout(5); s.connect({}); "
_LIBC = "import ctypes, os; libc = ctypes.CDLL(None); "
_WIN = f"print({WON!r})"
_HOLD = """
import os, time
children = []
for n in range(4):
    if (pid := os.fork()) == 0:
        data = bytearray(150 << 20)
        for at in range(0, len(data), 4096): data[at] = 1
        time.sleep(4)
        os._exit(0)
    children.append(pid)
if all(os.waitpid(pid, 0)[1] == 0 for pid in children): print("%s")
"""
_FORKS = """
import os, time
for n in range(60):
    if os.fork() == 0:
        time.sleep(2)
        os._exit(0)
print("%s")
"""
_FILL = """
import time
for n in range(20): open(f"part{n}", "wb").write(bytes(1 << 20))
time.sleep(4)
print("%s")
"""

ATTACKS = {
    "write outside the bound folders": Attack("open('$FOLDER/planted', 'w').write('x')", _planted),
    "read a host secret by path": Attack("print(open('$SECRET').read())"),
    "read a host secret by symlink": Attack("import os; os.symlink('$SECRET', 'soft'); print(open('soft').read())"),
    "read a host secret by hardlink": Attack("import os; os.link('$SECRET', 'hard'); print(open('hard').read())"),
    "read /etc/shadow": Attack(f"open('/etc/shadow').read(); {_WIN}", if_allowed=True),
    "loopback TCP": Attack(_CONNECT.format("AF_INET", "SOCK_STREAM", "('127.0.0.1', $TCP)") + _WIN),
    "loopback UDP": Attack(_CONNECT.format("AF_INET", "SOCK_DGRAM", "('127.0.0.1', $UDP)") + "s.send(b'out')", _heard),
    "abstract unix socket": Attack(_CONNECT.format("AF_UNIX", "SOCK_STREAM", "'\\x00$ABSTRACT'") + _WIN),
    "unix socket at a path": Attack(_CONNECT.format("AF_UNIX", "SOCK_STREAM", "'$PATH'") + _WIN),
    "a route to the outside": Attack(
        _CONNECT.format("AF_INET", "SOCK_DGRAM", "('192.0.2.1', 9)") + _WIN, if_allowed=True
    ),
    "kill a host process": Attack("import os; os.kill($PID, 9)", _killed_it),
    "trace a host process": Attack(f"{_LIBC} libc.ptrace(16, $PID, 0, 0) == 0 and {_WIN}", if_allowed=True),
    "list host processes": Attack(
        f"import glob; any('$MARKER' in open(p).read() for p in glob.glob('/proc/$PID/cmdline')) and {_WIN}"
    ),
    "a harness secret in the environment": Attack(
        "import glob\nfor p in glob.glob('/proc/[0-9]*/environ'):\n"
        "    try: print([e for e in open(p).read().split('\\0') if e.startswith('API_KEY=')])\n    except OSError: pass"
    ),
    "a new user namespace": Attack(f"{_LIBC} libc.unshare(0x10000000) == 0 and {_WIN}", if_allowed=True),
    "keyctl": Attack(f"{_LIBC} libc.syscall($KEYCTL, 0, -3, 0) >= 0 and {_WIN}", if_allowed=True),
    "io_uring": Attack(
        f"{_LIBC} libc.syscall(425, 1, ctypes.create_string_buffer(200)) >= 0 and {_WIN}", if_allowed=True
    ),
    "vsock": Attack(f"import socket; socket.socket(socket.AF_VSOCK); {_WIN}", if_allowed=True),
    "fork bomb": Attack(_FORKS % WON, limits={"processes": 40}),
    "memory bomb of one process": Attack(
        f"d = bytearray(600 << 20); {_WIN}", limits={"memory_mb": 300}, local_holds=True
    ),
    "memory bomb of many processes": Attack(_HOLD % WON, limits={"memory_mb": 300}, local_holds=True),
    "disk fill": Attack(_FILL % WON, limits={"disk_mb": 10}, local_holds=True),
}


@pytest.fixture
def host(marker: str) -> Iterator[Host]:
    uid = launch.owner()
    with (
        tempfile.TemporaryDirectory(prefix="attacked-") as name,
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
        socket.socket(socket.AF_UNIX) as abstract,
        socket.socket(socket.AF_UNIX) as path,
    ):
        folder = Path(name)
        folder.chmod(0o777)
        (folder / "secret").write_text(SECRET)
        udp.bind(("127.0.0.1", 0))
        udp.settimeout(0.2)
        abstract.bind(f"\0{marker}")
        path.bind(str(folder / "socket"))
        (folder / "socket").chmod(0o777)
        abstract.listen()
        path.listen()
        victim = subprocess.Popen(["/bin/sleep", marker], env={"API_KEY": SECRET}, user=uid, group=uid)
        try:
            yield Host(folder, folder / "secret", victim, marker, tcp, udp, marker, folder / "socket")
        finally:
            victim.kill()
            victim.wait()


@pytest.mark.parametrize("name", ATTACKS)
async def test_an_attack_fails_and_without_isolation_it_does_not(name: str, backend: Any, host: Host) -> None:
    attack = ATTACKS[name]
    script = host.script(attack.script)
    expected = backend.name == "local" and not attack.local_holds
    if expected and attack.if_allowed:
        bare = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)  # noqa: ASYNC221
        expected = WON in bare.stdout
    async with backend.open(**attack.limits) as sandbox:
        await sandbox.write("attack.py", script.encode())
        result = await sandbox.exec("python3 attack.py", timeout=30)
    assert not result.timed_out
    assert attack.succeeded(host, result) == expected, result


async def test_no_program_with_pipes_comes_through_either(backend_here: Any, host: Host) -> None:
    """What needs no limits, tried by programs beside a home and a socket; `local` is tried above."""
    async with backend_here.open(Extras(home=True, address_space=False)) as sandbox:
        with await sandbox.listen(8000):
            for name, attack in ATTACKS.items():
                if attack.limits or backend_here.name == "local":
                    continue
                await sandbox.write("attack.py", host.script(attack.script).encode())
                said = await _said(await sandbox.start(["python3", "attack.py"], {"PATH": "/usr/bin:/usr/local/bin"}))
                assert not attack.succeeded(host, ExecResult(said, 0, False, False)), name


async def _said(process: Process) -> str:
    output = b""
    with anyio.fail_after(60):
        while data := await process.receive():
            output += data
        await process.wait()
    return output.decode()


ON_THE_EXCHANGE = {
    "descriptors of what waits for it": f"import os; os.listdir(f'/proc/{{os.getppid()}}/fd'); {_WIN}",
    "memory of what waits for it": f"import os; open(f'/proc/{{os.getppid()}}/environ').read(); {_WIN}",
    "the folder of its pipes": f"import os; os.listdir(os.path.dirname(os.readlink('/proc/self/fd/0'))); {_WIN}",
    "the folder above a pipe": "import os; os.stat('/proc/self/fd/0/..')",
    "a command of process 1": f"""
import os
for pid in {{1, os.getppid()}}:
    for fd in range(256):
        try: os.listdir(f"/proc/{{pid}}/fd/{{fd}}"); {_WIN}
        except OSError: pass
""",
}


@pytest.mark.parametrize("name", ON_THE_EXCHANGE)
async def test_a_program_does_not_reach_what_the_harness_and_process_1_share(name: str, backend: Any) -> None:
    async with backend.open() as sandbox:
        script = ON_THE_EXCHANGE[name]
        direct = await _said(await sandbox.start(["python3", "-c", script], {"PATH": "/usr/bin:/usr/local/bin"}))
        below = await sandbox.start(["bash", "-c", f"python3 -c {shlex.quote(script)}"], {"PATH": "/usr/bin"})
        assert (WON in direct) == (backend.name == "local" and "above" not in name)
        if backend.name != "local":
            assert WON not in await _said(below)


async def test_a_program_cannot_forge_its_status(backend: Any) -> None:
    if backend.name == "local":
        return  # nothing is hidden there
    forge = "for fd in {0..255}; do for pid in 1 $$ $PPID; do { echo 0 >/proc/$pid/fd/$fd; echo 0 >&$fd; } 2>/dev/null"
    async with backend.open() as sandbox:
        process = await sandbox.start(["bash", "-c", f"{forge}; done; done; exit 7"], {"PATH": "/usr/bin"})
        await process.close_stdin()
        await _said(process)
        assert await process.wait() == 7
        assert (await sandbox.exec("exit 5")).exit_code == 5


async def _loops(sandbox: Sandbox) -> bool:
    return not (await sandbox.exec("while :; do :; done", timeout=0.3)).timed_out


async def _follows(sandbox: Sandbox, secret: Path) -> bool:
    await sandbox.exec(f"ln -s {secret} answer; ln -s / root")
    for path in ("answer", f"root/{secret}"):
        try:
            if SECRET.encode() in await sandbox.read(path):
                return True
        except ToolError:
            continue
    return False


ON_THE_HARNESS: dict[str, Callable[[Sandbox, Path], Awaitable[bool]]] = {
    "an endless loop": lambda sandbox, _: _loops(sandbox),
    "a symlink planted for the harness to follow": _follows,
}


@pytest.mark.parametrize("name", ON_THE_HARNESS)
async def test_the_harness_is_not_fooled_on_any_backend(name: str, backend: Any, host: Host) -> None:
    async with backend.open() as sandbox:
        assert not await ON_THE_HARNESS[name](sandbox, host.secret)


async def test_a_setsid_orphan_dies_with_the_episode_on_any_backend(
    backend: Any, marker: str, is_running: Callable[[str], bool]
) -> None:
    marker = marker.replace("4000.", "5000.")
    async with backend.open() as sandbox:
        await sandbox.exec(f"(setsid sleep {marker} >/dev/null 2>&1 &)")
        with anyio.fail_after(60):
            while not is_running(marker):  # noqa: ASYNC110
                await anyio.sleep(0.01)
    assert not is_running(marker)
