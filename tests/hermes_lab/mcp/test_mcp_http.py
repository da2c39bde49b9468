"""Servers that speak HTTP, and what the status of their answers means."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from hermes_lab.config.mcp import McpServerConfig
from hermes_lab.errors import McpError
from hermes_lab.mcp.connection import Connection, McpRefused, McpTimeout

TOOL = {"name": "t", "inputSchema": {"type": "object"}}
REFUSED = {"error": {"code": -32000, "message": "too many rows"}}
NO_ID = {"error": {"code": -32000, "message": "Bad Request: No valid session ID provided"}, "id": None}
NOT_BEGUN = {"error": {"code": -32000, "message": "Bad Request: Server not initialized"}, "id": None}
ARGUMENT = {"error": {"code": -32602, "message": "session_id must be a number"}}


class Answering(BaseHTTPRequestHandler):
    """Answers a method with what stands in `answers` of its server: a status, and an answer that is no JSON if None."""

    def do_POST(self) -> None:
        self.server.paths.append(self.path)  # type: ignore[attr-defined]
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "id" not in message:
            return self.say(202, b"")
        params = message.get("params") or {}
        answers: dict[str, tuple[int, Any]] = {
            "initialize": (
                200,
                {
                    "result": {
                        "protocolVersion": params.get("protocolVersion"),
                        "capabilities": {"tools": {}},
                        "serverInfo": {"name": "http", "version": "1"},
                    }
                },
            ),
            "tools/list": (200, {"result": {"tools": [TOOL]}}),
            **self.server.answers,  # type: ignore[attr-defined]
        }
        unknown = (200, {"error": {"code": -32601, "message": "no such method"}})
        status, answer = answers.get(message["method"], unknown)
        text = json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}) if answer else "<html>"
        return self.say(status, text.encode())

    def do_GET(self) -> None:
        self.say(405, b"")

    do_DELETE = do_GET

    def say(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", "text/html" if body == b"<html>" else "application/json")
        self.send_header("mcp-session-id", "one")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def http() -> Iterator[ThreadingHTTPServer]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        server.answers, server.paths = {}, []  # type: ignore[attr-defined]
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def connection_to(http: ThreadingHTTPServer, path: str = "/mcp", user: str = "") -> Connection:
    url = f"http://{user}127.0.0.1:{http.server_address[1]}{path}"
    return Connection("s", McpServerConfig(url=url, startup_seconds=20, timeout=10))


@pytest.mark.parametrize(
    ("status", "answer", "kind", "why", "ended"),
    [
        (200, REFUSED, McpRefused, "too many rows", False),
        (400, REFUSED, McpRefused, "too many rows", False),
        (400, ARGUMENT, McpRefused, "session_id must be a number", False),
        (400, NO_ID, McpError, r"mcp\.servers\.s: the connection was lost \(HTTP 400\)", True),
        (400, NOT_BEGUN, McpError, r"mcp\.servers\.s: the connection was lost \(HTTP 400\)", True),
        (404, None, McpError, r"mcp\.servers\.s: the connection was lost \(HTTP 404\)", True),
        (404, REFUSED, McpError, r"mcp\.servers\.s: the connection was lost \(HTTP 404\)", True),
        (401, None, McpError, r"lost \(HTTP 401\); is the key in `headers` right\?", True),
        (503, None, McpTimeout, r"mcp\.servers\.s: no answer \(HTTP 503\)", False),
    ],
)
async def test_what_the_status_of_an_answer_means(
    http: ThreadingHTTPServer, status: int, answer: Any, kind: type[McpError], why: str, ended: bool
) -> None:
    http.answers = {"tools/call": (status, answer)}  # type: ignore[attr-defined]
    connection = connection_to(http)
    try:
        assert [tool["name"] for tool in (await connection.open()).tools] == ["t"]
        with pytest.raises(McpError, match=why) as caught:
            await connection.call("t", {})
        assert caught.type is kind
        assert connection.ended is ended
    finally:
        await connection.aclose()


@pytest.mark.parametrize("status", [401, 500])
async def test_a_server_that_refuses_the_start_names_its_status(http: ThreadingHTTPServer, status: int) -> None:
    http.answers = dict.fromkeys(("initialize", "server/discover"), (status, None))  # type: ignore[attr-defined]
    with pytest.raises(McpError, match=rf"mcp\.servers\.s: .*\(HTTP {status}\)"):
        await connection_to(http).open()


async def test_a_key_in_an_address_is_used_and_never_told(
    http: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_KEY", "sesame")
    connection = connection_to(http, "/${A_KEY}/mcp?key=${A_KEY}")
    await connection.open()
    await connection.aclose()
    assert set(http.paths) == {"/sesame/mcp?key=sesame"}  # type: ignore[attr-defined]
    http.answers = dict.fromkeys(("initialize", "server/discover"), (500, None))  # type: ignore[attr-defined]
    for path, user in (("/${A_KEY}/mcp?key=${A_KEY}", ""), ("/mcp?key=sesame", ""), ("/mcp", "ann:sesame@")):
        with pytest.raises(McpError) as caught:
            await connection_to(http, path, user).open()
        assert f"127.0.0.1:{http.server_address[1]}{path.partition('?')[0]}: " in str(caught.value)
        assert "sesame" not in str(caught.value)


async def test_an_address_that_cannot_be_reached_is_told_without_its_key() -> None:
    with pytest.raises(McpError) as caught:
        await Connection("s", McpServerConfig(url="http://127.0.0.1:1/mcp?key=sesame")).open()
    assert str(caught.value) == ("mcp.servers.s: http://127.0.0.1:1/mcp cannot be reached; is the server running?")
