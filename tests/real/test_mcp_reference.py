"""The reference servers of MCP, and the protocol's conformance suite."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.command import lab
from fakes.processes import is_running

pytestmark = pytest.mark.long
PROGRAMS = Path(os.environ.get("HERMES_LAB_PROGRAMS", ".venv/programs")).absolute() / "npm" / "node_modules"
CLIENT = Path(__file__).parents[1] / "hermes_lab" / "mcp" / "conformance_client.py"
SCENARIOS = ("initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry")
"""Of the client. Those of OAuth (`auth/...`) are left out: the configuration has fixed headers only."""


@pytest.fixture(scope="module")
def everything() -> Iterator[str]:
    """The address of server-everything over streamable HTTP."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [PROGRAMS / ".bin" / "mcp-server-everything", "streamableHttp"]
    with subprocess.Popen(command, env={**os.environ, "PORT": str(port)}, stderr=subprocess.DEVNULL) as process:
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/mcp"
        process.terminate()


def test_all_tools_are_listed_and_one_of_each_server_is_called(everything: str, tmp_path: Path) -> None:
    servers = {
        "stdio": {"command": str(PROGRAMS / ".bin" / "mcp-server-everything"), "scope": "run"},
        "http": {"url": everything},
        "files": {"command": str(PROGRAMS / ".bin" / "mcp-server-filesystem"), "args": ["/app/data"]},
    }
    config = tmp_path / "mcp.yaml"
    config.write_text(json.dumps({"mcp": {"servers": servers}}))
    done = lab("mcp", "check", "-c", config, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {name: len(server["tools"]) for name, server in found.items()} == {"stdio": 15, "http": 15, "files": 14}
    assert all(server["called"] for server in found.values())
    config.write_text(json.dumps({"mcp": {"servers": servers | {"dead": {"url": "http://127.0.0.1:1/mcp"}}}}))
    done = lab("mcp", "check", "-c", config)
    assert done.returncode == 1
    assert "mcp.servers.dead: http://127.0.0.1:1/mcp cannot be reached" in done.stderr
    assert "44 tools of 3 servers; 1 failed" in done.stdout
    assert not is_running("mcp-server-filesystem")


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_scenario_of_the_conformance_suite_passes(scenario: str) -> None:
    node = subprocess.run(["node", "-p", "typeof fs.globSync"], capture_output=True, text=True, check=True).stdout
    if node.strip() != "function":
        pytest.skip("optional: the conformance suite needs Node 22 or newer")
    suite = [PROGRAMS / ".bin" / "conformance", "client", "--scenario", scenario]
    command = [*suite, "--command", f"{sys.executable} {CLIENT}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
