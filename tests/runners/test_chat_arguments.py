"""What a command of a chat refuses: arguments that it does not take, and lines that may not be queued."""

from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from fakes.command import lab
from fakes.openai_server import FakeOpenAIServer, running

from hermes_lab.commands.command import Command
from hermes_lab.commands.registry import all_commands


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


TAKES = {
    "bad": "any comment",
    "compress": "",
    "cron": "list",
    "good": "any comment",
    "help": "",
    "history": "",
    "memory": "list",
    "model": "any name",
    "new": "any name",
    "personality": "",
    "queue": "any message",
    "resume": "",
    "save": "any.md",
    "skills": "list",
    "title": "any name",
    "tools": "list",
    "undo": "",
    "verbose": "off",
}
"""What commands take, if anything: any text, or something to which nothing may be added."""


@pytest.mark.parametrize("command", all_commands(), ids=lambda command: command.name)
def test_a_command_refuses_what_it_does_not_take_and_the_model_sees_nothing_of_it(
    server: FakeOpenAIServer, command: Command
) -> None:
    takes = TAKES.get(command.name, "") if command.hint else ""
    if takes.startswith("any"):
        return
    for line in {f"/{command.name} {takes} superfluous".replace("  ", " "), f"/{command.name} superfluous"}:
        done = chat(server, line)
        (*_, last) = done.stderr.splitlines()
        assert (done.returncode, server.requests, done.stdout) == (2, [], ""), line
        assert "superfluous" in last or "takes no arguments" in last, last


def test_every_command_with_arguments_is_in_the_table() -> None:
    assert {command.name for command in all_commands() if command.hint} <= TAKES.keys()


def test_a_file_in_the_folder_of_nobody_is_refused(server: FakeOpenAIServer) -> None:
    done = chat(server, "/save ~nobody-of-that-name/a.md")
    assert (done.returncode, server.requests) == (2, [])
    assert done.stderr.splitlines()[-1].startswith("error: ~nobody-of-that-name/a.md: ")
