"""`hermes-lab chat` as a person uses it: a loopback server, the real sandbox, and a real terminal."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from fakes.openai_server import FakeOpenAIServer, Reply, Script, function_call, running

from hermes_lab.config.sources import load_config
from hermes_lab.errors import ConfigError, ModelError, StoreError
from hermes_lab.runners import terminal
from hermes_lab.runners.cli import app
from hermes_lab.runners.commands import chat as chat_command
from hermes_lab.sessions import SessionStore


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))
    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        yield


def options(server: FakeOpenAIServer) -> list[str]:
    chosen = {"model.base_url": server.base_url, "model.name": "fake", "model.max_retries": 0}
    return [part for key, value in chosen.items() for part in ("-c", f"{key}={value}")]


def chat(server: FakeOpenAIServer, *args: str) -> object:
    return app(["chat", *options(server), *args], standalone_mode=False)


def calls(name: str, **arguments: object) -> Reply:
    return Reply(tool_calls=[function_call("c", name, arguments)])


def test_another_program_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^agent\.program: chat runs only the lab's own agent loop"):
        app(["chat", "-c", "agent.program=codex", "Hello"], standalone_mode=False)


def test_one_prompt_prints_the_answer_alone_and_shows_the_calls_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    script: Script = [calls("terminal", command="echo 6*7 \x1b[31m"), "It is **42**.\n\x1b[31mred"]
    with running(FakeOpenAIServer(script)) as server:
        assert chat(server, "What is 6*7?") == 0
    out, err = capsys.readouterr()
    assert out == "It is **42**.\n\x1b[31mred\n"
    assert re.search(r"^terminal .*echo 6\*7", err, re.MULTILINE)
    assert "\x1b" not in err
    assert err.count("are deleted") == 1
    (info,) = SessionStore().latest()
    assert f"--session {info.id}" in err
    names = [tool["function"]["name"] for tool in server.requests[0]["tools"]]
    learning = {"skill_view", "skill_manage", "memory", "session_search", "delegate_task", "skill_compile"}
    assert {"terminal", "process", "read_file", "patch"} | learning <= set(names)
    assert "clarify" not in names  # nobody sits at a terminal


def test_a_call_that_failed_is_shown_with_its_reason_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with running(FakeOpenAIServer([calls("read_file", path="no\x1bsuch\nfile"), "So be it."])) as server:
        assert chat(server, "Read.") == 0
    lines = capsys.readouterr().err.splitlines()
    place = next(number for number, line in enumerate(lines) if line.startswith("read_file "))
    assert re.match(r"  error: .*no such", lines[place + 1])
    assert len(lines) == place + 3
    assert "\x1b" not in lines[place + 1]


def test_a_named_session_begins_and_then_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    with running(FakeOpenAIServer(["hello", "again"])) as server:
        assert chat(server, "one", "--session", "talk", "--json") == 0
        assert chat(server, "two", "--session", "talk", "--json", "-c", "agent.toolsets=[terminal]") == 0
    first, second = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert first["usage"]["prompt_tokens"] > 0
    assert first | second == second | {"usage": second["usage"]}
    assert (second["name"], second["answer"], second["stop_reason"]) == ("talk", "again", "answered")
    begun, resumed = server.requests
    assert resumed["messages"][:2] == begun["messages"]
    assert [m["content"] for m in resumed["messages"][1:]] == ["one", "hello", "two"]
    assert resumed["tools"] == begun["tools"]


def test_nobody_is_asked_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with running(FakeOpenAIServer([calls("clarify", question="Which?"), "fine"])) as server:
        assert chat(server, "Do it.") == 0
    assert "no user can be asked" in server.requests[-1]["messages"][-1]["content"]


def test_a_reply_that_is_no_answer_is_not_printed_as_one(capsys: pytest.CaptureFixture[str]) -> None:
    with running(FakeOpenAIServer([Reply("half a se", finish_reason="length")])) as server:
        assert chat(server, "Write.") == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "model.sampling.max_tokens" in err


def test_an_endpoint_that_is_not_there_is_one_line_and_leaves_no_session(capsys: pytest.CaptureFixture[str]) -> None:
    with running(FakeOpenAIServer([])) as server:
        pass
    assert chat(server, "hello", "--session", "new") == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert "cannot connect" in err
    assert "saved" not in err
    assert "give -c" not in err
    assert SessionStore().latest() == []


def test_who_waits_for_an_endpoint_is_told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "_SLOW_SECONDS", 0)
    with running(FakeOpenAIServer([])) as server:
        pass
    assert chat(server, "hello", "-c", "model.max_retries=1") == 3
    first, second = capsys.readouterr().err.splitlines()
    assert first == f"no answer from {server.base_url} yet; still trying"
    assert second.startswith(f"hermes-lab: error: {server.base_url}: cannot connect")


def test_where_nobody_named_an_endpoint_the_error_says_how() -> None:
    error = ModelError("nothing there")
    assert "hermes-lab config init" in chat_command._hint(error, load_config([]))
    assert chat_command._hint(error, load_config(["model.base_url=http://127.0.0.1:8000/v1"])) == ""
    assert chat_command._hint(StoreError("full"), load_config([])) == ""


def test_a_model_that_fails_before_its_first_reply_leaves_no_trace_and_one_that_fails_later_leaves_the_turn(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with running(FakeOpenAIServer([Reply(status=400, body={"error": {"message": "no"}})])) as server:
        assert chat(server, "hello", "--session", "new") == 3
    assert "turn discarded; send the message again" in capsys.readouterr().err
    assert SessionStore().latest() == []
    with running(FakeOpenAIServer([calls("terminal", command="true"), Reply(status=400)])) as server:
        assert chat(server, "hello", "--session", "new") == 3
    assert "the partial turn is saved" in capsys.readouterr().err
    assert SessionStore().find("new").length == 4


def test_commands_work_as_a_prompt_and_retry_asks_again(capsys: pytest.CaptureFixture[str]) -> None:
    with running(FakeOpenAIServer(["first", "second"])) as server:
        assert chat(server, "one", "--session", "talk") == 0
        assert chat(server, "/retry", "--session", "talk") == 0
        assert capsys.readouterr().out == "first\nsecond\n"
        assert chat(server, "/usage", "--session", "talk") == 0
        assert len(server.requests) == 2
    assert "completion =" in capsys.readouterr().err
    store = SessionStore()
    assert [message.content for message in store.load(store.find("talk").id).messages[1:]] == ["one", "second"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["hi", "--session", "a:b:c:d"], "session key"),
        (["hi", "--session", "cli:nowhere"], "no session"),
        (["hi", "--session", "19990101-1"], "no session"),
        (["hi", "--session", " "], "session name"),
        ([" "], "PROMPT"),
        ([], "PROMPT"),
        (["hi", "-c", "agent.toolsets=[tools]"], "no toolset"),
        (["hi", "-c", "agent.distribution=all"], "agent.distribution"),
    ],
)
def test_wrong_input_is_told_before_anything_begins(args: Sequence[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        app(["chat", *args], standalone_mode=False)


def test_an_interrupted_prompt_keeps_the_turn_and_exits_130() -> None:
    with running(FakeOpenAIServer([calls("terminal", command="sleep 1000")])) as server:
        process = subprocess.Popen(
            [sys.executable, "-m", "hermes_lab", "chat", *options(server)],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with process:
            assert process.stdin is not None
            assert process.stderr is not None
            process.stdin.write("from a pipe")
            process.stdin.close()
            while "sleep 1000" not in (line := process.stderr.readline()):
                assert line
            process.send_signal(signal.SIGINT)
            assert "partial turn is saved" in process.stderr.read()
        assert process.returncode == 130
    (info,) = SessionStore().latest()
    assert (info.opening, info.length) == ("from a pipe", 4)


def test_a_key_or_header_with_a_line_break_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "a\nb")
    with running(FakeOpenAIServer([])) as server:
        with pytest.raises(ConfigError, match=r"^model\.api_key_env: the key in MY_KEY holds a line break"):
            chat(server, "-c", "model.api_key_env=MY_KEY", "Hello")
        with pytest.raises(ConfigError, match=r"^model\.headers: 'X' holds a line break"):
            chat(server, "-c", 'model.headers={X: "a\\nb"}', "Hello")
