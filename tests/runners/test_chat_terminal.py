"""The interactive chat at a real terminal (tmux), with a loopback server and the real sandbox."""

import json
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fakes.openai_server import FakeOpenAIServer, Reply, function_call, running
from fakes.person import Person

from hermes_lab.sessions import SessionStore

Opens = Callable[..., Person]
PROMPT = "\n>"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))


@pytest.fixture
def opens(tmp_path: Path) -> Iterator[Opens]:
    """Opens a chat at a terminal."""
    people: list[Person] = []

    def open_chat(server: FakeOpenAIServer, *args: str) -> Person:
        chosen = {"model.base_url": server.base_url, "model.name": "fake", "model.max_retries": 0}
        options = [part for key, value in chosen.items() for part in ("-c", f"{key}={value}")]
        person = Person([sys.executable, "-m", "hermes_lab", "chat", *options, *args], tmp_path)
        people.append(person)
        person.sees("are deleted when this chat ends")
        return person

    yield open_chat
    for person in people:
        person.leave()


def calls(name: str, **arguments: object) -> Reply:
    return Reply(tool_calls=[function_call("c", name, arguments)])


def typed(server: FakeOpenAIServer) -> list[str]:
    """What the user said in the last request."""
    return [message["content"] for message in server.requests[-1]["messages"] if message["role"] == "user"]


def test_commands_call_no_model_and_a_paste_is_one_message(opens: Opens) -> None:
    with running(FakeOpenAIServer(["Got it."])) as server:
        person = opens(server)
        for command, said in [
            ("/usage", "no tokens reported"),
            ("/tools", "tools of"),
            ("/new", "new session"),
            ("/nonsense", "no command or skill /nonsense: nothing was sent"),
            ("/hlep", "did you mean /help?"),
            ("/status", "idle"),
            ("/history", "no turns yet"),
            ("/context", "in the context; 0 turns"),
            ("/model", "fake at http"),
            ("/memory list", "MEMORY.md: 0 entries"),
            ("/help reset", "/new, /reset [NAME]"),
        ]:
            person.types(command)
            person.sees(said)
        person.types("/re", enter=False)
        person.presses("Tab")
        offered = person.sees("/retry")
        assert "/resume" in offered
        assert "/reset" in offered
        person.presses("C-c")
        person.pastes("one\ntwo\nthree\n\nfive")
        person.presses("Enter")
        person.sees("Got it.")
        assert [len(server.requests), *typed(server)] == [1, "one\ntwo\nthree\n\nfive"]
        person.types("//usage as text")
        person.sees("Got it.", times=2)
        assert typed(server)[-1] == "/usage as text"
        person.presses("C-d")
        assert person.ends() == 0


def test_arguments_are_completed_too(opens: Opens) -> None:
    with running(FakeOpenAIServer(["hello"])) as server:
        person = opens(server, "--session", "taxes")
        person.types("hi")
        person.sees("hello")
        person.types("/new")
        person.sees("new session")
        person.types("/resume ta", enter=False)
        person.presses("Tab")
        person.sees("/resume taxes")
        person.presses("Enter")
        shown = person.sees("session taxes, 3 messages")
        assert "> hi\nhello" in shown.partition("session taxes, 3 messages")[2]


def test_one_may_type_while_the_agent_works(opens: Opens) -> None:
    script = [calls("terminal", command="sleep 1000"), "Here I am.", "And again."]
    with running(FakeOpenAIServer(script)) as server:
        person = opens(server)
        person.types("work")
        person.sees("sleep 1000")
        person.types("/status")
        person.sees("working for")
        person.types("are you there?")
        person.sees("queued; 1 waiting")
        person.types("/undo")
        person.sees("/undo cannot run while the agent works")
        person.types("/queue /hlep me")
        person.sees("no command or skill /hlep: nothing was sent; did you mean /help?")
        person.presses("C-c")
        person.sees("interrupted; the partial turn is saved")
        person.sees("Here I am.")
        assert typed(server) == ["work", "are you there?"]
        assert "interrupted by the user" in json.dumps(server.requests[-1]["messages"])
        person.types("/queue once more")
        person.sees("And again.")


def test_stop_ends_the_turn_and_then_what_runs_in_the_background(opens: Opens) -> None:
    script = [calls("terminal", command="sleep 500", background=True), calls("terminal", command="sleep 900"), "unused"]
    with running(FakeOpenAIServer(script)) as server:
        person = opens(server)
        person.types("work")
        person.sees("sleep 900")
        person.types("later")
        person.sees("queued")
        person.types("/stop")
        assert "dropped: later" in person.sees("interrupted")
        person.types("/status")
        person.sees("idle")
        person.types("/stop")
        person.sees("nothing to stop")  # the turn's processes ended with it
        assert len(server.requests) == 2


def test_the_end_of_a_background_job_is_told_while_one_types(opens: Opens) -> None:
    script = [calls("terminal", command="sleep 2; echo made it; exit 3", background=True), "Started."]
    with running(FakeOpenAIServer(script)) as server:
        person = opens(server)
        person.types("start it")
        person.sees("Started.")
        person.types("half a mess", enter=False)
        shown = person.sees("background p1 ended with exit code 3: sleep 2; echo made it; exit 3")
        assert "made it" in shown
        assert person.sees("\n> half a mess")
        assert person.screen().count("background p1 ended") == 1


def test_questions_of_the_agent_are_answered_at_the_prompt(opens: Opens) -> None:
    script = [
        calls("clarify", question="Which colour?", choices=["red", "blue"]),
        "Blue it is.",
        calls("clarify", question="Sure?"),
    ]
    with running(FakeOpenAIServer(script)) as server:
        person = opens(server)
        person.types("paint")
        person.sees("2. blue")
        person.sees("\n?")
        person.types("2")
        person.sees("Blue it is.")
        assert json.loads(server.requests[1]["messages"][-1]["content"]) == {"answer": "blue"}
        person.types("really")
        person.sees("Sure?")
        person.presses("C-c")
        person.sees("interrupted; the partial turn is saved")


def test_undo_and_retry_take_the_last_turn_back(opens: Opens) -> None:
    with running(FakeOpenAIServer(["first answer", "second answer", "third answer", "last answer"])) as server:
        person = opens(server, "--session", "talk")
        person.types("first")
        person.sees("first answer")
        person.types("second")
        person.sees("second answer")
        person.sees_prompt()
        person.types("/retry")
        person.sees("third answer")
        assert typed(server) == ["first", "second"]
        person.sees_prompt()
        person.types("/undo 2")
        person.sees("removed 2 turns, from: first")
        person.types("anew")
        person.sees("last answer")
        assert typed(server) == ["anew"]
        store = SessionStore()
        assert [m.content for m in store.load(store.find("talk").id).messages[1:]] == ["anew", "last answer"]


def test_compress_tells_the_tokens_and_a_killed_chat_resumes_with_the_same_bytes(opens: Opens) -> None:
    texts = ["alpha " * 300, "beta " * 300, "gamma " * 300, "THE SUMMARY", "next", "next"]
    with running(FakeOpenAIServer(texts)) as server:
        person = opens(server, "--session", "long")
        for number, word in enumerate(("one", "two", "three"), 1):
            person.types(word)
            person.sees("alpha" if number == 1 else "beta" if number == 2 else "gamma")
            person.sees_prompt()
            person.types("/usage")
            person.sees("completion =", times=number)
        person.types("/compress 700")
        shown = person.sees("% less)")
        assert "compressed from " in shown
        person.signals(signal.SIGKILL)
        assert person.ends() == 128 + signal.SIGKILL
        again = opens(server, "--session", "long")
        assert "THE SUMMARY" not in again.screen()
        again.types("go on")
        again.sees("next")
        asked = server.requests[-1]["messages"]
        session = SessionStore().load(SessionStore().find("long").id)
        assert len(session.compressions) == 1
        again.sees_prompt()
        again.types("/undo")
        again.sees("removed 1 turn")
        again.types("go on")
        again.sees("next", times=2)
        assert server.requests[-1]["messages"] == asked


def test_verbose_shows_results_in_full_and_off_shows_no_call(opens: Opens) -> None:
    script = [
        calls("terminal", command="echo out-$((20+3))"),
        "one.",
        calls("terminal", command="echo n-$((40+5))"),
        "two.",
    ]
    with running(FakeOpenAIServer(script)) as server:
        person = opens(server)
        person.types("/verbose verbose")
        person.sees("tool calls shown: verbose")
        person.types("a")
        person.sees("out-23")
        person.sees("one.")
        person.types("/verbose off")
        person.sees("tool calls shown: off")
        person.types("b")
        assert "n-$" not in person.sees("two.")
        person.types("/verbose loud")
        person.sees("no level 'loud'; choose off, new, all, verbose")


def test_a_failing_endpoint_ends_no_chat(opens: Opens) -> None:
    with running(FakeOpenAIServer([Reply(status=400, body={"error": {"message": "out of order"}}), "fine"])) as server:
        person = opens(server)
        person.types("unlucky")
        assert "turn discarded" in person.sees("out of order")
        person.types("again")
        person.sees("fine")
        assert typed(server) == ["again"]


def event(text: str, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
    chunk = {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "fake", "choices": [choice]}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def test_a_reply_is_shown_as_it_comes(opens: Opens) -> None:
    pieces = [event("First *paragraph*.\n\nSecond para"), event("graph.\n\nThird.", "stop"), b"data: [DONE]\n\n"]
    slow = Reply(pieces=pieces, pause=1.5, headers={"Content-Type": "text/event-stream"})
    with running(FakeOpenAIServer([slow, "Whole."])) as server:
        person = opens(server)
        person.types("tell")
        assert "Third" not in person.sees("Second para")
        person.sees("First paragraph.")  # rendered, as it is whole; gone for a moment while it is moved up
        person.sees("Third.")
        person.types("again")
        shown = person.sees("Whole.")
        assert [shown.count(text) for text in ("First paragraph.", "Second paragraph.", "Third.", "Whole.")] == [
            1,
            1,
            1,
            1,
        ]
        assert server.requests[0]["stream"] is True


def test_the_text_of_a_stopped_turn_is_not_put_before_the_next_answer(opens: Opens) -> None:
    headers = {"Content-Type": "text/event-stream"}
    slow = Reply(pieces=[event("Half an ans"), event("wer.", "stop"), b"data: [DONE]\n\n"], pause=2, headers=headers)
    with running(FakeOpenAIServer([slow, "Whole."])) as server:
        person = opens(server)
        person.types("tell")
        person.sees("Half an ans")
        person.presses("C-c")
        shown = person.sees("interrupted; turn discarded")
        assert re.search(r"Half an ans\s+interrupted; turn discarded", shown), shown
        person.types("again")
        person.sees("Whole.")
        person.sees_prompt()
        shown = person.screen()
        assert shown.count("Half an ans") == 1, shown
        assert re.search(r"> again\s+Whole\.", shown), shown


def test_signals_and_keys_leave(opens: Opens) -> None:
    with running(FakeOpenAIServer(["unused"])) as server:
        person = opens(server)
        person.sees(PROMPT)
        person.presses("C-c")
        person.sees("Ctrl-C again or Ctrl-D leaves the chat")
        person.presses("C-c")
        assert person.ends() == 0
        terminated = opens(server)
        terminated.sees(PROMPT)
        terminated.signals(signal.SIGTERM)
        assert terminated.ends() == 130
        quits = opens(server)
        quits.types("/quit")
        assert quits.ends() == 0
    assert SessionStore().latest() == []


def test_the_line_to_resume_has_the_options_of_the_command(opens: Opens) -> None:
    with running(FakeOpenAIServer(["hello"])) as server:
        person = opens(server, "--session", "my talk", "-c", "agent.toolsets=[terminal]")
        person.types("hi")
        person.sees("hello")
        person.presses("C-d")
        assert person.ends() == 0
        shown = person.screen()
    assert f"resume with: hermes-lab chat --session 'my talk' -c model.base_url={server.base_url}" in shown
    assert "-c 'agent.toolsets=[terminal]'" in shown
