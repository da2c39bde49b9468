"""The client of the Agent Client Protocol against a strict server in a sandbox."""

from collections.abc import AsyncIterator

import pytest

from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.errors import ProgramError
from hermes_lab.harness.acp import AcpConversation
from hermes_lab.protocols import Sandbox
from hermes_lab.sandbox import open_sandbox
from hermes_lab.sandbox.extras import Extras

SERVER = r"""
import json, sys
fault = sys.argv[1]
def send(**message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
def receive():
    message = json.loads(sys.stdin.readline())
    assert message.pop("jsonrpc") == "2.0", message
    return message
print("a banner, which is no message", flush=True)
begun = receive()
assert begun["method"] == "initialize" and begun["params"]["protocolVersion"] == 1, begun
assert begun["params"]["clientCapabilities"]["terminal"] is False
send(id=begun["id"], result={"protocolVersion": 2 if fault == "version" else 1})
new = receive()
assert new["method"] == "session/new" and new["params"] == {"cwd": "/app/data", "mcpServers": []}, new
send(id=new["id"], result={} if fault == "no session" else {"sessionId": "s1"})
for turn in range(2):
    asked = receive()
    assert asked["method"] == "session/prompt" and asked["params"]["sessionId"] == "s1", asked
    text = asked["params"]["prompt"][0]["text"]
    if fault == "error":
        send(id=asked["id"], error={"code": -1, "message": "no model"})
    if fault == "crash":
        sys.exit("it broke")
    send(method="session/update", params={"sessionId": "s1", "update": {"text": "x" * 100_000}})
    send(id="p1", method="session/request_permission", params={"options": [
        {"optionId": "no", "kind": "reject_once"}, {"optionId": "once", "kind": "allow_once"},
        {"optionId": "ever", "kind": "allow_always"}]})
    granted = receive()
    assert granted == {"id": "p1", "result": {"outcome": {"outcome": "selected", "optionId": "ever"}}}, granted
    send(id="f1", method="fs/read_text_file", params={"path": "/etc/passwd"})
    refused = receive()
    assert refused["id"] == "f1" and refused["error"]["code"] == -32601, refused
    open("/app/data/%d.txt" % turn, "w").write(text)
    send(id=asked["id"], result={"stopReason": "end_turn"})
"""


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with open_sandbox(SandboxConfig(), Extras(home=True)) as opened:
        await opened.write("server.py", SERVER.encode())
        yield opened


def conversation(sandbox: Sandbox, fault: str = "") -> AcpConversation:
    command = ["/usr/bin/python3", "/app/data/server.py", fault]
    return AcpConversation(sandbox, command, {"PATH": "/usr/bin:/bin"}, "/app/data")


async def test_turns_of_one_session(sandbox: Sandbox) -> None:
    talk = conversation(sandbox)
    for number, prompt in enumerate(("first\nprompt", "zweite ü")):
        ended = await talk.turn(prompt)
        assert ended.stderr == ""
        assert (await sandbox.read(f"{number}.txt")).decode() == prompt
    await talk.aclose()


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("version", "speaks version 2 of the Agent Client Protocol, not 1"),
        ("no session", "session/new was answered without a sessionId"),
        ("error", "session/prompt failed: no model"),
        ("crash", "ended with status 1 before it answered session/prompt: it broke"),
    ],
)
async def test_a_broken_server_is_an_error(sandbox: Sandbox, fault: str, message: str) -> None:
    talk = conversation(sandbox, fault)
    with pytest.raises(ProgramError, match=message):
        await talk.turn("go")
    await talk.aclose()


async def test_a_missing_server_is_an_error(sandbox: Sandbox) -> None:
    talk = AcpConversation(sandbox, ["/nowhere/acp"], {"PATH": "/usr/bin"}, "/app/data")
    with pytest.raises(ProgramError, match="/nowhere/acp: ended with status 127"):
        await talk.turn("go")
    await talk.aclose()
