"""What a command of a chat refuses: arguments that it does not take, and lines that may not be queued."""

from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from fakes.command import lab
from fakes.openai_server import FakeOpenAIServer, running


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeOpenAIServer]:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))
    with running(FakeOpenAIServer(["Yes."])) as server:
        yield server


def chat(server: FakeOpenAIServer, line: str, *args: str) -> CompletedProcess[str]:
    return lab("chat", "-c", f"model.base_url={server.base_url}", "-c", "model.name=fake", *args, "--", line)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("/nosuch", "no command or skill /nosuch: nothing was sent"),
        ("/hlep me", "did you mean /help?"),
        ("/retry", "/retry cannot be queued: while the agent works, it is refused"),
        ("/queue hi", "/queue cannot be queued: while the agent works, it runs at once"),
        ("/usage now", "/usage takes no arguments"),
    ],
)
def test_what_may_not_be_queued_is_refused_when_it_is_queued(server: FakeOpenAIServer, line: str, why: str) -> None:
    done = chat(server, f"/queue {line}")
    assert why in done.stderr
    assert (done.returncode, server.requests) == (2, [])


@pytest.mark.parametrize(
    ("line", "sent"), [("//nosuch", "/nosuch"), ("hello", "hello"), ("/etc/hosts?", "/etc/hosts?")]
)
def test_what_is_queued_is_read_as_if_it_were_typed(server: FakeOpenAIServer, line: str, sent: str) -> None:
    assert chat(server, f"/queue {line}").returncode == 0
    assert server.requests[0]["messages"][-1]["content"] == sent


def test_a_command_that_waits_for_the_turn_can_be_queued(server: FakeOpenAIServer) -> None:
    done = chat(server, "/queue /title taxes")
    assert "title: taxes" in done.stderr
    assert (done.returncode, server.requests) == (0, [])
