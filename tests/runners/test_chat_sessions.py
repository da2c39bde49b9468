"""`hermes-lab sessions`: what chats left behind, for people and as JSON."""

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from fakes.command import lab
from fakes.openai_server import FakeOpenAIServer, Reply, running
from fakes.person import Person

from hermes_lab.chat.reviews import ReviewLog
from hermes_lab.errors import ConfigError
from hermes_lab.memory.vector import Memory
from hermes_lab.memory.vector_sqlite import SqliteMemory
from hermes_lab.runners.cli import app
from hermes_lab.sessions import Session, SessionKey, SessionStore
from hermes_lab.types import Message, Review, ToolCall, Usage


@pytest.fixture(autouse=True)
def taxes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))
    store = SessionStore()
    other = store.create(SessionKey("telegram", "5"), model="m2", messages=[], tools=[])
    store.append(other, [Message("user", "the weather")])
    session = store.create(
        SessionKey("cli", "local"), model="m1", messages=[Message("system", "Be brief.")], tools=[], name="taxes"
    )
    call = ToolCall("c", "terminal", {"command": "cat invoice"})
    said = [Message("user", "sum the\ninvoices\x1b[31m"), Message("assistant", "", (call,))]
    return store.append(session, said, usage=Usage(1000, 234))


def sessions(*args: str) -> None:
    assert not app(["sessions", *args], standalone_mode=False)


def test_the_list_shows_the_latest_first_a_line_each(taxes: Session, capsys: pytest.CaptureFixture[str]) -> None:
    sessions("list")
    heading, first, second = capsys.readouterr().out.splitlines()
    assert " ".join(heading.split()) == "ID NAME KEY UPDATED MESSAGES TOKENS MODEL BEGINS WITH"
    assert first.split()[:3] == [taxes.id, "taxes", "cli:local"]
    assert " ".join(first[heading.index("MESSAGES") :].split()) == "3 1,234 m1 sum the invoices [31m"
    assert second.split()[1:3] == ["-", "telegram:5"]
    assert second.endswith("the weather")
    sessions("list", "--platform", "Telegram")
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [heading.split(), second.split()]
    sessions("list", "-n", "1", "--json")
    (info,) = json.loads(capsys.readouterr().out)["sessions"]
    assert (info["name"], info["usage"]) == ("taxes", {"prompt_tokens": 1000, "completion_tokens": 234})


def test_a_session_is_shown_whole(taxes: Session, capsys: pytest.CaptureFixture[str]) -> None:
    sessions("show", "taxes")
    out = capsys.readouterr().out
    assert "## system\nBe brief.\n\n## user\nsum the\ninvoices" in out
    assert "[terminal {'command': 'cat invoice'}]" in out
    assert "\x1b" not in out
    sessions("show", taxes.id[:-1], "--json")
    shown = json.loads(capsys.readouterr().out)
    assert [m["role"] for m in shown["messages"]] == ["system", "user", "assistant"]


def test_a_search_says_where_the_words_stand(taxes: Session, capsys: pytest.CaptureFixture[str]) -> None:
    sessions("search", "invoice* AND (sum OR add)")
    assert capsys.readouterr().out == "taxes  user 1  [sum] the [invoices] [31m\n"
    sessions("search", "invoice*", "--role", "assistant", "--session", "taxes", "--json")
    (hit,) = json.loads(capsys.readouterr().out)["hits"]
    assert (hit["session"], hit["place"]) == (taxes.id, 2)
    sessions("search", "sum OR weather", "--platform", "telegram")
    assert capsys.readouterr().out.endswith("  user 0  the [weather]\n")
    sessions("search", "--", "-(no such")
    out, err = capsys.readouterr()
    assert (out, err) == ("", "nothing found\n")


def test_a_session_is_renamed_and_deleted(capsys: pytest.CaptureFixture[str]) -> None:
    sessions("rename", "telegram:5", "weather")
    sessions("delete", "weather", "--yes", "--json")
    assert json.loads(capsys.readouterr().out)["deleted"]["name"] == "weather"
    assert [info.name for info in SessionStore().latest()] == ["taxes"]


def test_without_a_terminal_nothing_is_deleted_unless_yes_is_given() -> None:
    done = lab("sessions", "delete", "taxes")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "delete session taxes (3 messages) and its turns: there is no terminal to ask at; --yes" in done.stderr
    assert SessionStore().find("taxes")


def test_at_a_terminal_a_deletion_asks_first(tmp_path: Path) -> None:
    for answer, code, kept in (("n", 1, True), ("y", 0, False)):
        person = Person([sys.executable, "-m", "hermes_lab", "sessions", "delete", "taxes"], tmp_path)
        try:
            person.sees("delete session taxes (3 messages) and its turns? [y/N]:")
            person.types(answer)
            assert person.ends() == code
        finally:
            person.leave()
        assert ("taxes" in [info.name for info in SessionStore().latest()]) == kept


@pytest.mark.parametrize("args", [["show", "nobody"], ["delete", "nobody"], ["rename", "taxes", "a:b"], ["show", "x:"]])
def test_a_wrong_name_is_one_line(args: list[str]) -> None:
    with pytest.raises(ConfigError):
        sessions(*args)


def test_a_platform_without_sessions_is_told_with_those_that_have_some() -> None:
    with pytest.raises(ConfigError, match=r"^platform 'matrx': no sessions .* there are sessions of: cli, telegram$"):
        sessions("list", "--platform", "matrx")
    with pytest.raises(ConfigError, match="platform 'matrx'"):
        sessions("search", "sum", "--platform", "matrx")


def summed_up(server: FakeOpenAIServer, *args: str) -> int:
    model = ("-c", f"model.base_url={server.base_url}", "-c", "model.name=fake", "-c", "model.max_retries=0")
    code: int = app(["sessions", "search", "invoices", "--summary", *model, *args], standalone_mode=False)
    return code


def test_hits_are_summed_up(taxes: Session, capsys: pytest.CaptureFixture[str]) -> None:
    with running(FakeOpenAIServer(["One is\ndue.", "Two."])) as server:
        assert summed_up(server) == 0
        assert capsys.readouterr().out == "taxes  user 1  sum the [invoices] [31m\n\nOne is\ndue.\n"
        assert summed_up(server, "--json") == 0
    asked = server.requests[0]["messages"][1]["content"]
    assert asked.startswith(f"# Query\ninvoices\n\n# Session {taxes.id}, ")
    assert "user: sum the\ninvoices" in asked
    assert "cat invoice" in asked
    assert "Be brief." not in asked
    assert json.loads(capsys.readouterr().out)["summary"] == "Two."


@pytest.mark.parametrize("reply", [Reply(status=500), "", Reply("cut", finish_reason="length")])
def test_hits_without_a_summary_are_still_hits(reply: Reply | str, capsys: pytest.CaptureFixture[str]) -> None:
    with running(FakeOpenAIServer([reply, reply])) as server:
        assert summed_up(server) == 3
        assert summed_up(server, "--json") == 3
    out, err = capsys.readouterr()
    line, answer = out.splitlines()
    assert line.startswith("taxes  user 1")
    assert len(json.loads(answer)["hits"]) == 1
    assert json.loads(answer)["not_summarised"]
    assert err.count("hermes-lab: error: not summarised: ") == 2


def test_a_model_that_nobody_asks_is_told() -> None:
    with pytest.raises(ConfigError, match="--config: only names the model for --summary"):
        sessions("search", "invoices", "-c", "model.name=m")


@pytest.mark.parametrize("command", ["list", "show", "search", "rename", "delete"])
def test_every_help_has_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    sessions(command, "--help")
    assert f"hermes-lab sessions {command}" in capsys.readouterr().out.replace("\n", " ")


def test_a_deletion_leaves_nothing_of_what_was_said(taxes: Session, tmp_path: Path) -> None:
    home, at = tmp_path / "home", datetime.now(UTC)
    ReviewLog(home, taxes.id).append(Review(), 3)
    ReviewLog(home, "other").append(Review(), 3)
    memory = SqliteMemory(home / "memories.db")
    memory.add([Memory.of("episodic", f"Request: {each}", source=each, at=at) for each in (taxes.id, "other")])
    sessions("delete", "taxes", "--yes")
    assert [path.name for path in (home / "reviews").iterdir()] == ["other.jsonl"]
    assert list(memory.held("episodic").values()) == ["other"]
    assert [info.name for info in SessionStore().latest()] == [""]


def test_a_session_stays_if_its_memories_cannot_be_deleted(tmp_path: Path) -> None:
    (tmp_path / "home" / "memories.db").write_text("no database")
    with pytest.raises(ConfigError, match=r"memories\.db"):
        sessions("delete", "taxes", "--yes")
    assert SessionStore().find("taxes")


def test_a_limit_that_no_database_takes_is_refused() -> None:
    done = lab("sessions", "list", "-n", "99999999999999999999")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "1000000" in done.stderr.replace("_", "").replace(",", "")
