"""Names become addresses, ports and users inside, at once and without a network."""

import json
import shlex
from typing import Any

import pytest

from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.protocols import Sandbox
from hermes_lab.sandbox import open_sandbox

pytestmark = pytest.mark.anyio

LOOK = """\
import getpass, json, socket, time
started = time.monotonic()
print(json.dumps({
    "localhost": socket.gethostbyname("localhost"),
    "own": socket.gethostbyname(socket.gethostname()),
    "addresses": sorted({row[4][0] for row in socket.getaddrinfo("localhost", "http")}),
    "reverse": socket.gethostbyaddr("127.0.0.1")[0],
    "ports": [socket.getservbyname(*row) for row in (("http",), ("https", "tcp"), ("domain", "udp"))],
    "service": socket.getservbyport(5432),
    "protocol": socket.getprotobyname("udp"),
    "user": getpass.getuser(),
    "at once": time.monotonic() - started < 4,  # a resolver waits 5 seconds for a name server
}))
"""
UNKNOWN = """\
import socket, time
started = time.monotonic()
try:
    socket.getaddrinfo("hermes.example", 80)
finally:
    print("at once" if time.monotonic() - started < 4 else "late")
"""
SERVE = """\
python3 -m http.server 8123 --bind {at} --directory {folder} >/dev/null 2>&1 &
for _ in $(seq 100); do (echo >/dev/tcp/{at}/8123) 2>/dev/null && break; sleep 0.05; done
python3 -c 'import urllib.request as r; print(r.urlopen("http://{name}:8123/f").read().decode())'
"""


async def run(box: Sandbox, script: str) -> str:
    result = await box.exec(script, timeout=20)
    assert result.exit_code == 0, result.output
    return result.output


async def test_names_are_known_at_once() -> None:
    async with open_sandbox(SandboxConfig()) as box:
        found: dict[str, Any] = json.loads(await run(box, f"python3 -c {shlex.quote(LOOK)}"))
    assert found == {
        "localhost": "127.0.0.1",
        "own": "127.0.0.1",
        "addresses": ["127.0.0.1"],
        "reverse": "localhost",
        "ports": [80, 443, 53],
        "service": "postgresql",
        "protocol": 17,
        "user": "agent",
        "at once": True,
    }


@pytest.mark.parametrize(
    ("at", "name"), [("127.0.0.1", "localhost"), ("localhost", "localhost"), ("sandbox", "sandbox")]
)
async def test_a_server_of_the_sandbox_is_reached_by_name(at: str, name: str) -> None:
    async with open_sandbox(SandboxConfig()) as box:
        await box.write("f", b"here")
        assert "here" in await run(box, SERVE.format(at=at, name=name, folder="/app/data"))


async def test_any_other_name_is_unknown_at_once() -> None:
    async with open_sandbox(SandboxConfig()) as box:
        result = await box.exec(f"python3 -c {shlex.quote(UNKNOWN)}")
    assert "Name or service not known" in result.output
    assert "at once" in result.output
