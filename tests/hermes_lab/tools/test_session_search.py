"""What a model finds of earlier sessions, and that nothing it types ends in a crash."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.errors import ContextFull, ModelError
from hermes_lab.protocols import Sandbox
from hermes_lab.sessions import SessionKey, SessionStore, summary
from hermes_lab.sessions.summary import Summarise
from hermes_lab.tools.registry import ToolContext
from hermes_lab.tools.session_search import NOTE
from hermes_lab.tools.toolbox import Toolbox
from hermes_lab.types import Message, ToolCall, ToolResult

TERMINAL = SessionKey("cli", "x")
Search = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> SessionStore:
    """Three sessions: two about ports, of which one says it often, and a long one."""
    store = SessionStore(tmp_path_factory.mktemp("home") / "sessions.db")
    call = ToolCall("c", "terminal", {"command": "ss -lt"})
    result = ToolResult("c", "terminal", '{"output": "port 8080 is taken"}')
    _begin(store, "often", *[Message("user", f"port port port {n}") for n in range(30)])
    _begin(
        store,
        "deploy",
        Message("user", "Which port does the service use?"),
        Message("assistant", "", (call,)),
        Message("tool", result.content, results=(result,), tool_call_id="c"),
        Message("assistant", "The service uses 8080."),
    )
    _begin(store, "", *[Message("user", f"turn {n} " + "x" * 5_000) for n in range(1, 12)])
    return store


def _begin(store: SessionStore, name: str, *said: Message, key: SessionKey = TERMINAL) -> None:
    system = Message("system", "You answer about every port.")
    store.append(store.create(key, model="m", messages=[system], tools=[], name=name), said)


def _call(store: SessionStore | None, arguments: dict[str, Any], summarise: Summarise | None = None) -> dict[str, Any]:
    context = ToolContext(cast(Sandbox, None), None, SandboxConfig(), sessions=store, summarise=summarise)
    toolbox = Toolbox(("session_search",), context)

    async def call() -> str:
        return (await toolbox.run(ToolCall("c", "session_search", arguments))).content

    answer: dict[str, Any] = json.loads(anyio.run(call))
    return answer


@pytest.fixture(scope="module")
def search(store: SessionStore) -> Search:
    return lambda **arguments: _call(store, arguments)


def test_hits_are_grouped_by_session_and_fenced_as_background(search: Search) -> None:
    answer = search(query="port")
    assert answer["note"] == NOTE
    assert {session["name"] for session in answer["sessions"]} == {"often", "deploy"}
    for session in answer["sessions"]:
        assert 1 <= len(session["hits"]) <= 3, "one session does not fill the answer"
        for hit in session["hits"]:
            assert "[port]" in hit["text"]
            assert len(hit["date"]) == len("2026-01-31")
            assert hit["role"] != "system"


def test_the_limit_counts_sessions(search: Search) -> None:
    assert len(search(query="port", limit=1)["sessions"]) == 1


def test_one_session_can_be_searched_alone(search: Search) -> None:
    (found,) = search(query="service 8080")["sessions"]
    (same,) = search(query="port", session=found["session"])["sessions"]
    assert same["name"] == "deploy"
    assert search(query="port", session="nothing\ud800")["sessions"] == []


def test_a_platform_can_be_searched_alone(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "sessions.db")
    _begin(store, "here", Message("user", "port"))
    _begin(store, "there", Message("user", "port"), key=SessionKey("telegram", "5", chat_type="dm"))
    for platform, names in (("", {"here", "there"}), ("cli", {"here"}), (" Telegram", {"there"})):
        found = _call(store, {"query": "port", "platform": platform})["sessions"]
        assert {session["name"] for session in found} == names


def test_a_summary_stands_beside_the_hits_and_is_written_from_the_messages_around_them(store: SessionStore) -> None:
    requests: list[Message] = []

    async def write(request: Sequence[Message]) -> str:
        requests.extend(request)
        return "The service uses 8080."

    answer = _call(store, {"query": "service OR 6", "summary": True}, write)
    assert answer["summary"] == "The service uses 8080."
    assert len(answer["sessions"]) == 3
    text = requests[1].content
    assert text.startswith("# Query\nservice OR 6\n\n# Session ")
    assert "tool: " in text
    assert "every port" not in text
    assert len(text) < 18_000
    assert all(f"turn {n} " in text for n in range(4, 9))


async def fails(request: Sequence[Message]) -> str:
    raise ModelError("no answer\nfrom x")


async def is_too_long(request: Sequence[Message]) -> str:
    raise ContextFull("4,096 tokens at most")


async def says_nothing(request: Sequence[Message]) -> str:
    return ""


async def hangs(request: Sequence[Message]) -> str:
    await anyio.sleep_forever()
    return ""


@pytest.mark.parametrize(
    ("write", "why"),
    [
        (fails, "no answer from x"),
        (is_too_long, "4,096 tokens at most"),
        (says_nothing, "the model gave no usable summary"),
        (hangs, "the model gave no summary within 0.01 s"),
        (None, "no model is available for summaries"),
    ],
)
def test_a_failed_summary_loses_no_hit(
    store: SessionStore, write: Summarise | None, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summary, "_SECONDS", 0.01)
    plain = _call(store, {"query": "port"})
    assert _call(store, {"query": "port", "summary": True}, write) == plain | {"not_summarised": why}
    assert _call(store, {"query": "nonsense", "summary": True}, write) == {"note": NOTE, "sessions": []}


def test_the_messages_around_a_hit_can_be_read(search: Search) -> None:
    (found,) = search(query='"port 8080 is taken"')["sessions"]
    (hit,) = found["hits"]
    assert (hit["place"], hit["role"]) == (3, "tool")
    around = search(session=found["session"], place=hit["place"])
    assert around["note"] == NOTE
    assert [(m["place"], m["role"]) for m in around["messages"]] == [
        *((1, "user"), (2, "assistant"), (3, "tool"), (4, "assistant"))
    ], "all but the system prompt"
    assert around["messages"][1]["text"] == "[calls terminal with {'command': 'ss -lt'}]"


def test_a_long_session_is_shown_in_part_and_long_messages_are_cut(search: Search) -> None:
    (found,) = search(query='"turn 6"')["sessions"]
    around = search(session=found["session"], place=6)
    assert [m["place"] for m in around["messages"]] == list(range(2, 11))
    assert all(len(m["text"]) < 2_100 for m in around["messages"])


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({}, "query: must not be empty"),
        ({"query": " \n"}, "query: must not be empty"),
        ({"session": "x"}, "query: must not be empty"),
        ({"place": 3}, "give the id of the session"),
        ({"session": "nothing", "place": 3}, "no session 'nothing'"),
        ({"session": "\ud800", "place": 3}, "no session"),
        ({"query": "x", "limit": 0}, "limit"),
        ({"query": "x", "place": -1}, "place"),
        ({"query": "x", "sort": "new"}, "sort"),
        ({"query": "port", "platform": "matrix"}, "no sessions are held there; there are sessions of: cli"),
        ({"query": "port", "platform": "\ud800"}, "no sessions are held there"),
    ],
)
def test_a_call_that_makes_no_sense_is_told_why(search: Search, arguments: dict[str, Any], error: str) -> None:
    assert error in search(**arguments)["error"]


def test_a_place_beyond_the_end_is_told(search: Search) -> None:
    (found,) = search(query="service 8080")["sessions"]
    assert search(session=found["session"], place=99)["error"] == "place: the last message of the session is 4"


def test_where_nothing_is_stored_the_tool_says_so() -> None:
    assert _call(None, {"query": "x"}) == {"error": "no sessions are stored here"}


@pytest.mark.parametrize(
    "query", ['"', "AND", "port AND", "NEAR(", "a:b", "*", "(port", "^", "port -", "x" * 5_000, "\0", "港口"]
)
def test_malformed_queries_find_what_they_can(search: Search, query: str) -> None:
    assert "error" not in search(query=query)


@settings(max_examples=100)
@given(query=st.text(alphabet=st.characters(codec="utf-8") | st.sampled_from('"*()^:-+ ANDORT'), min_size=1))
def test_no_query_fails(search: Search, query: str) -> None:
    answer = search(query=query)
    assert "sessions" in answer or "query: must not be empty" in answer["error"]


def test_a_search_leaves_the_sessions_as_they_are(store: SessionStore, search: Search) -> None:
    before = store.latest()
    search(query="port")
    assert store.latest() == before
