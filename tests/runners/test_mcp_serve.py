"""The lab as an MCP server, by the official client."""

import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from fakes.command import lab
from mcp import Client
from mcp.client.stdio import StdioServerParameters

LEARN = ("-c", "model={provider: scripted, name: hermes_lab.tasks.learner:learner}", "-c", "suite.name=ledger")
SHAPE = ("-c", "learning={rounds: 2, round_size: 2, worlds: 1}", "-c", "agent.toolsets=[terminal,skills]")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served") / "runs"
    done = lab("experiment", *LEARN, *SHAPE, "-c", "skills.review_every=0", "--out", folder / "one", "--quiet")
    assert done.returncode == 0, done.stderr
    (folder / "out").symlink_to("/etc")
    return folder


@asynccontextmanager
async def client(runs: Path) -> AsyncIterator[Any]:
    environment = {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = ["-m", "hermes_lab", "mcp", "serve", "--runs", str(runs)]
    async with Client(StdioServerParameters(command=sys.executable, args=command, env=environment)) as connected:
        yield connected


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


async def test_other_agents_read_what_was_measured_and_change_nothing(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(runs)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "imported.py").write_text("open('executed', 'w')")
    async with client(runs) as lab_server:
        tools = (await lab_server.list_tools()).tools
        assert [tool.name for tool in tools] == ["runs", "summary", "show", "compare", "skills", "tasks"]
        assert all(tool.annotations.read_only_hint for tool in tools)

        async def ask(name: str, **arguments: Any) -> dict[str, Any]:
            result = await lab_server.call_tool(name, arguments)
            assert not result.is_error, result.content
            found: dict[str, Any] = json.loads(result.content[0].text)
            return found

        (row,) = (await ask("runs"))["runs"]
        assert (row["run"], row["suite"]) == ("one", "ledger")
        summary = await ask("summary", run="one")
        assert summary["finished"] == row["wanted"]
        assert await ask("show", run="one", lane="on")
        assert "messages" in json.dumps(await ask("show", run="one", episode="0"))
        (warning,) = summary["warnings"]
        assert (await ask("compare", before="one"))["warnings"] == [f"{runs / 'one'}: {warning}"]
        assert await ask("skills", run="one", lane="on-r0-w0")
        shown = (await ask("tasks", suite="ledger", count=2))["tasks"]
        assert len(shown) == 2
        assert sorted(shown[0]) == ["domain", "files", "id", "prompt"]
        assert "domains" in await ask("tasks")
        wrong = (
            ("summary", {"run": "nosuch"}, "there is no run 'nosuch';"),
            ("summary", {"run": "../one"}, "there is no run '../one';"),
            ("summary", {"run": "out"}, "there is no run 'out';"),
            ("summary", {"run": "/etc"}, "there is no run '/etc';"),
            ("summary", {"run": "a\0b"}, "there is no run"),
            ("summary", {"run": "x" * 5000}, "there is no run"),
            ("skills", {"run": "one", "lane": "on-r0-w0", "name": "--help"}, "--help"),
            ("show", {"run": "one", "episode": "999"}, "999"),
            ("tasks", {"suite": "nosuch"}, "no suite 'nosuch'"),
            ("tasks", {"suite": "os:abort"}, "no suite 'os:abort'"),
            ("tasks", {"suite": "imported:Suite"}, "no suite 'imported:Suite'"),
            ("tasks", {"suite": "ledger", "count": 5000}, "50"),
        )
        for name, arguments, why in wrong:
            result = await lab_server.call_tool(name, arguments)
            assert result.is_error
            assert why in result.content[0].text
    assert contents(runs) == before
    assert not (tmp_path / "executed").exists()


async def test_it_serves_over_http_and_ends_at_an_interrupt(runs: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "hermes_lab", "mcp", "serve", "--runs", str(runs), "--http", f"127.0.0.1:{port}"]
    process = await anyio.open_process(command, stderr=None)
    try:
        with anyio.fail_after(60):
            tools = 0
            while not tools:  # until it listens
                try:
                    async with Client(f"http://127.0.0.1:{port}/mcp") as connected:
                        tools = len((await connected.list_tools()).tools)
                except Exception:
                    await anyio.sleep(0.1)
        assert tools == 6
    finally:
        process.send_signal(signal.SIGINT)
        with anyio.fail_after(60):
            await process.wait()
        await process.aclose()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--runs", "/no/such"), "--runs: /no/such: no such folder"),
        (("--runs", "/tmp", "--http", "x"), "give HOST:PORT"),
    ],
)
def test_a_wrong_option_is_one_line(options: tuple[str, ...], why: str) -> None:
    done = lab("mcp", "serve", *options)
    assert done.returncode == 2
    assert why in done.stderr
    assert done.stdout == ""
