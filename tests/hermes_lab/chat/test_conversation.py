"""A session that is held with a loopback server and the real sandbox: what is sent, what is kept, what is ended."""

import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from fakes.openai_server import FakeOpenAIServer, Reply, Script, function_call

from hermes_lab.chat.conversation import Conversation
from hermes_lab.chat.session_toolbox import SessionToolbox
from hermes_lab.chat.summaries import Summaries
from hermes_lab.config.schema import RunConfig
from hermes_lab.errors import ConfigError, ModelError
from hermes_lab.models import open_model
from hermes_lab.models.hermes_format import render_calls
from hermes_lab.sandbox import open_sandbox
from hermes_lab.sessions import Session, SessionKey, SessionStore
from hermes_lab.tools.registry import ToolContext
from hermes_lab.transcript import SUMMARY
from hermes_lab.types import Message, ToolCall, ToolResult, Usage

pytestmark = pytest.mark.anyio
LONGEST = 60.0


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(tmp_path / "sessions.db")


@asynccontextmanager
async def holding(
    store: SessionStore,
    server: FakeOpenAIServer,
    *overrides: dict[str, Any],
    session: Session | None = None,
    show: Callable[[ToolCall], None] = lambda call: None,
    say: Callable[[str], None] = lambda line: None,
    shown: Callable[[ToolCall, ToolResult], None] = lambda call, result: None,
    backend: str = "bubblewrap",
) -> AsyncIterator[Conversation]:
    model = {"name": "fake", "base_url": server.base_url, "max_retries": 0}
    agent = {"toolsets": ["terminal", "process"]} | dict(*overrides)
    sandbox = {"backend": backend, "allow_local": backend == "local"}
    config = RunConfig.model_validate({"model": model, "agent": agent, "sandbox": sandbox})
    opening = open_model(
        config.model, tool_format=config.agent.tool_format, log=Path("none"), concurrency=1, say=lambda text: None
    )
    async with opening as client, open_sandbox(config.sandbox) as opened:
        context = ToolContext(opened, None, config.sandbox, sessions=store, summarise=Summaries())
        frozen = session.tools if session else None
        toolbox = SessionToolbox(config.agent.toolsets, context, show=show, shown=shown, frozen=frozen)
        session = session or store.create(
            SessionKey("cli", "local"),
            model="fake",
            messages=[Message("system", "Be brief.")],
            tools=toolbox.schemas,
            tool_format=config.agent.tool_format,
        )
        yield Conversation(store, session, client, toolbox, config, say=say)


def runs(command: str, *more: str, **arguments: Any) -> Reply:
    calls = [
        function_call(f"c{n}", "terminal", {"command": text} | arguments) for n, text in enumerate((command, *more))
    ]
    return Reply(tool_calls=calls)


def said(session: Session) -> list[str]:
    return [f"{m.role}: {m.content}" for m in session.messages[1:]]


async def test_every_turn_is_stored_as_it_ends_with_its_tokens(store: SessionStore) -> None:
    script = [runs("echo hi"), "done", "and again"]
    async with FakeOpenAIServer(script) as server, holding(store, server) as conversation:
        first = await conversation.submit("one")
        assert store.load(conversation.session.id) == conversation.session
        second = await conversation.submit("two")
    kept = store.load(conversation.session.id)
    assert (first.answer, second.answer, second.stop) == ("done", "and again", "answered")
    assert [m.role for m in kept.messages] == ["system", "user", "assistant", "tool", "assistant", "user", "assistant"]
    assert kept.usage == first.usage + second.usage
    assert first.usage.prompt_tokens > second.usage.completion_tokens > 0


async def test_hits_are_summed_up_in_a_call_that_counts_for_the_turn(store: SessionStore) -> None:
    begun = store.create(SessionKey("cli", "local"), model="m", messages=[Message("system", "s")], tools=[])
    earlier = store.append(begun, [Message("user", "Which port?"), Message("assistant", "Port 8080.")])
    search = function_call("c", "session_search", {"query": "port", "summary": True})
    script = [Reply(tool_calls=[search]), "It is 8080.", "done"]
    async with (
        FakeOpenAIServer(script) as server,
        holding(store, server, {"toolsets": ["session_search"]}) as conversation,
    ):
        turn = await conversation.submit("Which port was it?")
    first, summing, last = server.requests
    assert "tools" in first
    assert "tools" not in summing
    assert f"# Session {earlier.id}" in summing["messages"][1]["content"]
    answer = json.loads(last["messages"][-1]["content"])
    assert answer["summary"] == "It is 8080."
    assert answer["sessions"][0]["session"] == earlier.id
    sent = [sum(len(message["content"] or "") for message in request["messages"]) for request in server.requests]
    assert turn.usage.prompt_tokens > sum(sent)
    assert turn.usage == conversation.session.usage


async def test_a_resumed_session_sends_the_bytes_that_the_unbroken_one_sends(store: SessionStore) -> None:
    """Summaries included: the turns that a compression hid stay hidden."""
    one = "done" * 20
    script = [runs("echo hi"), one, "two done", "SHORT", "three done", "four done"]

    async def requests(*parts: list[str]) -> list[dict[str, Any]]:
        session = None
        async with FakeOpenAIServer(script) as server:
            for turns in parts:
                async with holding(store, server, session=session) as conversation:
                    for turn in turns:
                        if turn == "/compress":
                            assert await conversation.compress()
                        else:
                            await conversation.submit(turn)
                session = store.load(conversation.session.id)
        return server.requests

    unbroken = await requests(["one", "two", "/compress", "three", "four"])
    resumed = await requests(["one", "two", "/compress", "three"], ["four"])
    assert msgspec.json.encode(resumed[-1]) == msgspec.json.encode(unbroken[-1])
    contents = [m["content"] for m in resumed[-1]["messages"][1:]]
    assert contents == ["one", SUMMARY + "SHORT", "two", "two done", "three", "three done", "four"]


async def test_the_tools_stay_as_the_session_began_even_where_one_is_gone(store: SessionStore) -> None:
    old = {"type": "function", "function": {"name": "fax", "description": "old", "parameters": {"type": "object"}}}
    session = store.create(SessionKey("cli", "local"), model="m", messages=[Message("system", "s")], tools=[old])
    script = [Reply(tool_calls=[function_call("c", "fax", {})]), "so be it"]
    async with FakeOpenAIServer(script) as server, holding(store, server, session=session) as conversation:
        assert (await conversation.submit("fax it")).answer == "so be it"
    assert [request["tools"] for request in server.requests] == [[old], [old]]
    assert "unknown tool 'fax'" in conversation.session.messages[3].content


async def test_a_message_that_the_model_never_replied_to_was_not_sent(store: SessionStore) -> None:
    async with FakeOpenAIServer([Reply(status=400), "welcome back"]) as server, holding(store, server) as conversation:
        with pytest.raises(ModelError):
            await conversation.submit("lost")
        assert conversation.session.length == 1
        await conversation.submit("hello")
    assert said(store.load(conversation.session.id)) == ["user: hello", "assistant: welcome back"]


async def test_a_turn_that_fails_halfway_is_kept_as_far_as_it_came(store: SessionStore) -> None:
    script = [runs("echo hi"), Reply(status=400), "where were we"]
    async with FakeOpenAIServer(script) as server, holding(store, server) as conversation:
        with pytest.raises(ModelError):
            await conversation.submit("work")
        assert [m.role for m in store.load(conversation.session.id).messages] == ["system", "user", "assistant", "tool"]
        await conversation.submit("go on")
    assert [m["role"] for m in server.requests[-1]["messages"]] == ["system", "user", "assistant", "tool", "user"]


@pytest.mark.parametrize(
    ("tool_format", "backend"), [("native", "bubblewrap"), ("hermes", "bubblewrap"), ("native", "local")]
)
async def test_a_cancelled_turn_answers_its_open_calls_and_ends_every_process_that_it_started(
    store: SessionStore, tool_format: str, backend: str
) -> None:
    """Those of earlier turns go on."""
    mine = os.getpid()  # the processes of `local` are the machine's
    marks = f"nohup setsid sleep 1111.{mine} & (while :; do sleep 0.{mine}; done) & disown -a; echo begun"
    waits = f"sleep 4444.{mine}"
    lines = "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '"  # processes end meanwhile
    count = f"{lines} | grep -o 'sleep [0-9]*.{mine}' | sort -u | tr '\\n' ';'"
    script: list[Reply] = [runs(f"sleep 3333.{mine} &"), Reply("it runs"), runs(marks, waits), runs(count), Reply("ok")]
    if tool_format == "hermes":
        script = [as_text(reply) for reply in script]
    async with FakeOpenAIServer(script) as server:
        begun = anyio.Event()

        def show(call: ToolCall) -> None:
            if call.arguments["command"] == waits:
                begun.set()

        async with holding(store, server, {"tool_format": tool_format}, show=show, backend=backend) as conversation:
            await conversation.submit("start a server")
            with anyio.fail_after(LONGEST):
                async with anyio.create_task_group() as group:
                    group.start_soon(conversation.submit, "work")
                    await begun.wait()
                    await anyio.sleep(0.2)
                    group.cancel_scope.cancel()
            kept = store.load(conversation.session.id)
            results = [result for message in kept.messages for result in message.results][-2:]
            assert "begun" in results[0].content
            assert (results[1].ok, results[1].content) == (False, '{"error": "interrupted by the user"}')
            await conversation.submit("what is running?")
    found = [result for message in conversation.session.messages for result in message.results][-1]
    assert f'"sleep 3333.{mine};"' in found.content
    sent = server.requests[-1]["messages"]
    answered = [m for m in sent if "interrupted by the user" in (m["content"] or "")]
    assert [m["role"] for m in answered] == ["tool" if tool_format == "native" else "user"]


def as_text(reply: Reply) -> Reply:
    calls = [
        ToolCall(call["id"], call["function"]["name"], msgspec.json.decode(call["function"]["arguments"]))
        for call in reply.tool_calls
    ]
    return Reply(render_calls("", calls)) if calls else reply


async def test_a_turn_that_is_cancelled_before_a_reply_leaves_the_session_as_it_was(store: SessionStore) -> None:
    asked = anyio.Event()

    def script(body: dict[str, Any]) -> Reply:
        asked.set()
        return Reply("late", delay=30)

    async with FakeOpenAIServer(script) as server, holding(store, server) as conversation:
        with anyio.fail_after(LONGEST):
            async with anyio.create_task_group() as group:
                group.start_soon(conversation.submit, "work")
                await asked.wait()
                group.cancel_scope.cancel()
        kept = store.load(conversation.session.id)
    assert (kept.length, kept.usage) == (1, Usage())


async def test_every_turn_has_the_whole_budget(store: SessionStore) -> None:
    def script(body: dict[str, Any]) -> str | Reply:
        last = body["messages"][-1]
        return runs("true") if last["content"] in ("one", "two") else "concluded"

    async with FakeOpenAIServer(script) as server, holding(store, server, {"max_iterations": 1}) as conversation:
        turns = [await conversation.submit("one"), await conversation.submit("two")]
    assert [(turn.stop, turn.answer) for turn in turns] == [("max_iterations", "concluded")] * 2


async def test_thoughts_are_no_part_of_an_answer_in_the_text_format(store: SessionStore) -> None:
    script: Script = ["<think>hm</think>\n\nyes"]
    async with FakeOpenAIServer(script) as server, holding(store, server, {"tool_format": "hermes"}) as conversation:
        assert (await conversation.submit("is it?")).answer == "yes"
    assert conversation.session.messages[-1].content == "<think>hm</think>\n\nyes"


async def test_a_resumed_session_knows_how_large_its_context_is(store: SessionStore) -> None:
    """As the server counted it, after a turn that failed and after a compression, too."""
    script = ["done " * 200, "two done", "SHORT", runs("echo hi"), Reply(status=400)]
    async with FakeOpenAIServer(script) as server:
        async with holding(store, server) as conversation:
            turns = [await conversation.submit("one"), await conversation.submit("two")]
            counted = turns[-1].usage.prompt_tokens + turns[-1].usage.completion_tokens
            assert conversation.tokens() == counted
        async with holding(store, server, session=store.load(conversation.session.id)) as resumed:
            assert resumed.tokens() == counted
            done = await resumed.compress()
            assert done
            assert (done.before, resumed.tokens()) == (counted, done.after)
        async with holding(store, server, session=store.load(conversation.session.id)) as again:
            assert again.tokens() == done.after
            with pytest.raises(ModelError):
                await again.submit("three")
            failed = again.tokens()
        async with holding(store, server, session=store.load(conversation.session.id)) as last:
            assert last.tokens() == failed != done.after
            await last.undo()
            assert last.tokens() < failed


async def test_nothing_is_compressed_where_there_is_nothing_to_gain(store: SessionStore) -> None:
    async with FakeOpenAIServer(["hello"]) as server, holding(store, server) as conversation:
        await conversation.submit("hi")
        before = conversation.session
        assert not await conversation.compress()
    assert store.load(before.id) == before


async def test_a_session_that_went_on_elsewhere_is_refused_before_the_model_is_called(store: SessionStore) -> None:
    async with FakeOpenAIServer(lambda body: Reply("Late.")) as server, holding(store, server) as conversation:
        store.append(store.load(conversation.session.id), [Message("user", "Elsewhere"), Message("assistant", "Yes.")])
        with pytest.raises(ConfigError, match="went on in another process"):
            await conversation.submit("Hello")
        assert not server.requests
        await conversation.reload()
        assert (await conversation.submit("Hello")).answer == "Late."
