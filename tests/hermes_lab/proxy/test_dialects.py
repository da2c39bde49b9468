"""What the dialects write, the lab's own clients read, and the other way round."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_lab.config.schema import ModelConfig
from hermes_lab.errors import ModelError
from hermes_lab.models.client import wire_for
from hermes_lab.models.overflow import is_overflow
from hermes_lab.models.wires.sse import events_of
from hermes_lab.proxy.conversations import key_of
from hermes_lab.proxy.dialects import DIALECTS
from hermes_lab.types import Generation, Message, ToolCall, ToolResult, Usage

FIELDS = {
    *("role", "content", "tool_calls", "tool_call_id", "name", "type", "output", "arguments", "call_id", "input"),
    *("tools", "stream", "system", "function_call", "action", "text"),
}
texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=30)
words = st.text("abc_", min_size=1, max_size=8)
arguments = st.dictionaries(
    words, st.one_of(texts, st.integers(-9, 9), st.booleans(), st.lists(texts, max_size=2)), max_size=3
)
FUNCTION = {
    "type": "function",
    "function": {"name": "a", "description": "d", "parameters": {"type": "object", "properties": {}}},
}


def json_of(leaves: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.lists(leaves, max_size=3) | st.dictionaries(st.sampled_from(sorted(FIELDS)), leaves, max_size=3)


@st.composite
def generations(draw: st.DrawFn) -> Generation:
    count = draw(st.integers(0, 3))
    calls = tuple(ToolCall(f"call_{n}", draw(words), draw(arguments)) for n in range(count))
    content = draw(texts) if calls else draw(texts.filter(str.strip))
    usage = Usage(draw(st.integers(5, 99)), draw(st.integers(1, 99)), draw(st.integers(0, 5)))
    ending = "tool_calls" if calls else draw(st.sampled_from(["stop", "length"]))
    return Generation(Message(role="assistant", content=content, tool_calls=calls), ending, usage)


def wire(name: str):  # type: ignore[no-untyped-def]
    config = ModelConfig.model_validate({"provider": DIALECTS[name].provider, "name": "m"})
    return wire_for(config, "m", "native")


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("stream", [False, True])
@given(generation=generations())
def test_a_reply_is_read_as_it_was_written(name: str, stream: bool, generation: Generation) -> None:
    dialect, client = DIALECTS[name], wire(name)
    request = {"model": "m", "stream_options": {"include_usage": True}}
    if stream:
        told = client.assemble(events_of(dialect.events(generation, request)))
    else:
        told = msgspec.json.decode(msgspec.json.encode(dialect.reply(generation, request)))
    read = client.read(told, [], [FUNCTION])
    assert read.message.content == generation.message.content
    assert [(c.id, c.name, c.arguments) for c in read.message.tool_calls] == [
        (c.id, c.name, c.arguments) for c in generation.message.tool_calls
    ]
    assert (read.finish_reason, read.usage) == (generation.finish_reason, generation.usage)


@st.composite
def histories(draw: st.DrawFn) -> list[Message]:
    messages = [Message(role="system", content=draw(texts.filter(str.strip)))]
    for turn in range(draw(st.integers(1, 3))):
        messages.append(Message(role="user", content=draw(texts.filter(str.strip))))
        calls = tuple(
            ToolCall(f"call_{turn}_{n}", draw(words), draw(arguments)) for n in range(draw(st.integers(0, 2)))
        )
        content = draw(texts.filter(str.strip))
        messages.append(Message(role="assistant", content=content, tool_calls=calls))
        for call in calls:
            result = ToolResult(call.id, call.name, draw(texts.filter(str.strip)))
            messages.append(Message(role="tool", content=result.content, results=(result,), tool_call_id=call.id))
        if calls:
            messages.append(Message(role="assistant", content="and then"))
    messages.append(Message(role="user", content="last"))
    return messages


@pytest.mark.parametrize("name", DIALECTS)
@given(messages=histories())
def test_a_request_is_read_as_it_was_written(name: str, messages: list[Message]) -> None:
    body = msgspec.json.decode(msgspec.json.encode(wire(name).body(messages, [FUNCTION])))
    asked = DIALECTS[name].read(body)
    assert list(map(key_of, asked.messages)) == list(map(key_of, messages))
    assert [r.name for m in asked.messages for r in m.results] == [r.name for m in messages for r in m.results]
    assert asked.tools == (FUNCTION,)
    assert asked.lost == 0


@pytest.mark.parametrize("name", DIALECTS)
def test_what_is_no_request_is_an_error(name: str) -> None:
    for body in ({}, {"messages": "x", "input": 3}, {"messages": None, "input": None}):
        with pytest.raises(ValueError, match="needs"):
            DIALECTS[name].read(body)


@pytest.mark.parametrize("name", ["chat", "messages"])
def test_what_a_message_cannot_hold_is_counted(name: str) -> None:
    parts = [
        {"type": "text", "text": "see"},
        {"type": "image", "source": {}},
        {"type": "thinking", "thinking": "hm"},
        {"odd": 1},
    ]
    asked = DIALECTS[name].read({"messages": [{"role": "user", "content": parts}, {"role": "user", "content": 7}]})
    assert asked.lost == 1
    assert asked.messages[0].content == 'see\n[image]\n{"odd": 1}'


BROKEN = [
    ToolCall("c1", "sh", error="invalid tool call: not JSON", raw='{"command": "ls'),
    ToolCall("c1", "sh", error="invalid tool call: the reply was cut off", raw='{"command": "ls"}'),
    ToolCall("c1", "sh", error="invalid tool call: nothing", raw=""),
    ToolCall("c1", "sh", error="invalid tool call: arguments must be an object", raw="[1]"),
]


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("call", BROKEN)
def test_a_call_that_must_not_run_is_written_so_that_no_program_runs_it(
    name: str, stream: bool, call: ToolCall
) -> None:
    """Neither with what was read of it, nor with nothing."""
    dialect, client = DIALECTS[name], wire(name)
    tools = [{"type": "custom", "name": "patch"}]
    for call_name in ("sh", "patch"):
        given = msgspec.structs.replace(call, name=call_name)
        generation = Generation(Message(role="assistant", tool_calls=(given,)), "tool_calls")
        request = {"model": "m", "tools": tools if name == "responses" else []}
        if stream:
            told = client.assemble(events_of(dialect.events(generation, request)))
        else:
            told = msgspec.json.decode(msgspec.json.encode(dialect.reply(generation, request)))
        if name == "messages":
            (block,) = told["content"]
            assert block["name"] == "unreadable_tool_call"
            assert block["input"] == {"tool": call_name, "arguments": call.raw, "error": call.error}
        elif name == "responses" and call_name == "patch":
            (item,) = told["output"]
            assert item["type"] == "custom_tool_call"
            assert item["input"] not in ("", '{"command": "ls"}')
        else:
            (read,) = client.read(told, [], [FUNCTION]).message.tool_calls
            assert (read.id, read.name, read.arguments) == ("c1", "sh" if call_name == "sh" else "patch", {})
            assert read.error


def test_messages_read_a_call_back_that_could_not_be_read() -> None:
    for call in BROKEN:
        generation = Generation(Message(role="assistant", content="Hm.", tool_calls=(call,)), "tool_calls")
        content = DIALECTS["messages"].reply(generation, {})["content"]
        result = {"type": "tool_result", "tool_use_id": "c1", "content": "No such tool available.", "is_error": True}
        body = {
            "messages": [
                {"role": "user", "content": "go"},
                {"role": "assistant", "content": content},
                {"role": "user", "content": [result]},
            ]
        }
        _, message, answered = DIALECTS["messages"].read(body).messages
        assert message == generation.message
        assert (answered.results[0].name, answered.results[0].ok) == ("sh", False)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("name", "ending", "read_as"),
    [
        ("chat", "length", "length"),
        ("chat", "content_filter", "content_filter"),
        ("chat", "refusal", "stop"),
        ("messages", "length", "length"),
        ("messages", "content_filter", "refusal"),
        ("messages", "refusal", "refusal"),
        ("responses", "length", "length"),
        ("responses", "content_filter", "content_filter"),
        ("responses", "refusal", "stop"),
    ],
)
def test_a_reply_that_is_no_answer_is_told_so(name: str, ending: str, read_as: str, stream: bool) -> None:
    dialect, client = DIALECTS[name], wire(name)
    generation = Generation(Message(role="assistant", content="No."), ending, Usage(3, 1))
    told = client.assemble(events_of(dialect.events(generation, {}))) if stream else dialect.reply(generation, {})
    read = client.read(told, [], [FUNCTION])
    assert (read.finish_reason, read.message.content) == (read_as, "No.")


@pytest.mark.parametrize("too_long", [False, True])
@pytest.mark.parametrize("name", DIALECTS)
def test_an_error_in_a_stream_is_an_error_to_a_client(name: str, too_long: bool) -> None:
    dialect, client = DIALECTS[name], wire(name)
    written = dialect.ping() + dialect.broken_off(502, "it is down", too_long=too_long)
    with pytest.raises(ModelError, match="it is down") as caught:
        client.read(client.assemble(events_of(written)), [], [FUNCTION])
    assert is_overflow(400, str(caught.value)) == too_long


@given(
    st.recursive(st.none() | st.booleans() | st.integers() | texts, json_of, max_leaves=8),
    st.sampled_from(sorted(FIELDS)),
)
def test_any_json_is_a_request_or_an_error(junk: object, field: str) -> None:
    """Programs send what they will; nothing but `ValueError` is raised."""
    for dialect in DIALECTS.values():
        for body in (
            {"messages": junk, "input": junk},
            {"messages": [junk], "input": [junk]},
            {"messages": [{"role": "user", "content": "x", field: junk}], "input": [{"type": "message", field: junk}]},
            {"messages": [{"role": "assistant", field: [junk]}], "input": [{"type": field, field: junk}]},
            {"messages": [], "input": [], field: junk, "tools": [junk], "system": junk, "instructions": junk},
        ):
            try:
                asked = dialect.read(body)
            except ValueError:
                continue
            msgspec.json.encode(asked.messages)
            list(map(key_of, asked.messages))
            [tool["function"]["name"] for tool in asked.tools]
