"""The Anthropic Messages format: requests that the API takes, and replies that are read for what they are worth."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from fakes.anthropic_server import (
    FakeAnthropicServer,
    Reply,
    check,
    message,
    redacted,
    stream,
    text,
    thinking,
    tool_use,
)
from fakes.api_server import KEY, Refusal
from fakes.mutate import mutated
from fakes.small_episode import SCHEMA, play
from native_wires import (
    ADD,
    ASK,
    GOLDEN,
    PLAIN,
    SYSTEM,
    WORDS,
    check_golden,
    check_played,
    check_replay,
    check_text_format,
    is_sound,
    open_native,
    put,
    read_anything,
)

from hermes_lab.config.schema import ModelConfig
from hermes_lab.config.sources import load_config
from hermes_lab.errors import ConfigError, ModelError
from hermes_lab.models.client import wire_for
from hermes_lab.models.refusals import Failed, Refused
from hermes_lab.models.wires.anthropic import AnthropicWire
from hermes_lab.protocols import ModelClient
from hermes_lab.types import Generation, Message, ToolCall, ToolResult, Usage

MARK = {"cache_control": {"type": "ephemeral"}}


def wire(tool_format: str = "native", **fields: Any) -> AnthropicWire:
    config = {"provider": "anthropic", "name": "claude-fake", "prompt_cache": False, "sampling": PLAIN, **fields}
    return AnthropicWire(ModelConfig.model_validate(config), "claude-fake", tool_format)


def turns(*messages: Message, tool_format: str = "native", **fields: Any) -> list[dict[str, Any]]:
    return wire(tool_format, **fields).body(messages, [ADD])["messages"]


def result(call_id: str, content: str, *, ok: bool = True) -> Message:
    return Message("tool", content, results=(ToolResult(call_id, "add", content, ok=ok),), tool_call_id=call_id)


def asks(*calls: ToolCall, content: str = "") -> Message:
    return Message("assistant", content, tool_calls=calls)


def reply(*blocks: Mapping[str, Any], stop_reason: str | None = "end_turn", **fields: object) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": list(blocks), "stop_reason": stop_reason, **fields}


def read(received: object, *sent: Message, tool_format: str = "native", **fields: Any) -> Generation:
    return wire(tool_format, **fields).read(received, sent or (SYSTEM, ASK), [ADD])


# Requests


def test_a_request_has_the_system_prompt_apart_and_the_tools_as_the_api_wants_them() -> None:
    assert wire().body([SYSTEM, ASK], [ADD]) == {
        "model": "claude-fake",
        "max_tokens": 100,
        "system": [{"type": "text", "text": "You add."}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Add 1."}]}],
        "tools": [{"name": "add", "description": "Adds to the sum.", "input_schema": SCHEMA}],
    }


def test_the_results_of_one_turn_stand_in_one_user_message_before_what_the_user_says() -> None:
    calls = asks(ToolCall("a", "add", {"by": 1}), ToolCall("b", "add", {"by": 2}))
    sent = turns(SYSTEM, ASK, calls, result("a", '{"total": 1}'), result("b", '{"error": "no"}', ok=False), ASK)
    assert [turn["role"] for turn in sent] == ["user", "assistant", "user"]
    assert sent[2]["content"] == [
        {"type": "tool_result", "tool_use_id": "a", "content": '{"total": 1}'},
        {"type": "tool_result", "tool_use_id": "b", "content": '{"error": "no"}', "is_error": True},
        {"type": "text", "text": "Add 1."},
    ]


def test_results_come_first_whenever_the_user_spoke() -> None:
    sent = turns(ASK, asks(ToolCall("a", "add")), Message("user", "Wait."), result("a", "{}"))
    assert [block["type"] for block in sent[2]["content"]] == ["tool_result", "text"]


def test_user_messages_in_a_row_become_one() -> None:
    assert turns(ASK, Message("user", "Now.")) == [{"role": "user", "content": [text("Add 1."), text("Now.")]}]


@pytest.mark.parametrize("blank", ["", " \n"])
def test_blank_texts_are_never_sent(blank: str) -> None:
    empty = [Message("system", blank), ASK, Message("assistant", blank), Message("user", blank), Message("user", "On.")]
    body = wire().body(empty, ())
    assert "system" not in body
    assert body["messages"] == [{"role": "user", "content": [text("Add 1."), text("On.")]}]


def test_an_empty_result_is_still_a_result() -> None:
    sent = turns(ASK, asks(ToolCall("a", "add")), result("a", ""))
    assert sent[2]["content"] == [{"type": "tool_result", "tool_use_id": "a"}]


def test_a_message_of_another_model_is_built_from_its_text_and_calls() -> None:
    calls = asks(ToolCall("f.add:0", "add", {"by": 1}), ToolCall("b", "no name!", error="unknown"), content="So.")
    sent = turns(ASK, calls, result("f.add:0", "{}"), result("b", "{}"))
    assert sent[1]["content"] == [
        text("So."),
        {"type": "tool_use", "id": "f_add_0", "name": "add", "input": {"by": 1}},
        {"type": "tool_use", "id": "b", "name": "unknown", "input": {}},
    ]
    assert [block["tool_use_id"] for block in sent[2]["content"]] == ["f_add_0", "b"]


def test_stored_blocks_are_sent_as_they_came() -> None:
    blocks = [thinking("Hm."), redacted("secret"), text("So."), tool_use("a", "add", {"by": 1}) | {"caller": {}}]
    got = read(reply(*blocks, stop_reason="tool_use")).message
    assert got.provider_fields == {"anthropic": blocks}
    assert turns(ASK, got, result("a", "{}"))[1] == {"role": "assistant", "content": blocks}


def test_what_the_api_gives_but_does_not_take_is_left_out() -> None:
    got = read(reply(text(""), text("So."), thinking("And"), redacted("then"))).message
    assert turns(ASK, got, ASK)[1]["content"] == [text("So.")]
    only_thought = read(reply(thinking("Hm."))).message
    assert len(turns(ASK, only_thought, ASK)) == 1


def test_sampling_fields_are_sent_where_they_areput() -> None:
    sampling = {"max_tokens": 9, "temperature": 0.5, "top_p": 0.9, "top_k": 5, "stop": ["END"]}
    sent = wire(sampling=sampling).body([ASK], ())
    assert {key: sent[key] for key in ("max_tokens", "temperature", "top_p", "top_k", "stop_sequences")} == {
        "max_tokens": 9,
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 5,
        "stop_sequences": ["END"],
    }
    assert set(wire().body([ASK], ())) == {"model", "max_tokens", "messages"}


def test_a_top_p_that_cuts_nothing_off_is_not_sent_beside_a_temperature() -> None:
    assert "top_p" not in wire(sampling={"temperature": 0.0, "top_p": 1.0}).body([ASK], ())


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"sampling": PLAIN | {"seed": 0}}, "model.sampling.seed"),
        ({"sampling": PLAIN | {"min_p": 0.0}}, "model.sampling.min_p"),
        ({"sampling": PLAIN | {"presence_penalty": 0.0}}, "model.sampling.presence_penalty"),
        ({"sampling": PLAIN | {"frequency_penalty": 1.0}}, "model.sampling.frequency_penalty"),
        ({"token_ids": True}, "model.token_ids"),
        ({"reasoning_effort": "minimal"}, "model.reasoning_effort"),
        ({"reasoning_effort": "low", "sampling": PLAIN | {"temperature": 0.0}}, "model.sampling.temperature"),
        ({"reasoning_effort": "low", "sampling": PLAIN | {"top_k": 3}}, "model.sampling.top_k"),
        ({"reasoning_effort": "low", "sampling": PLAIN | {"top_p": 0.5}}, "model.sampling.top_p"),
    ],
)
def test_what_the_api_does_not_have_is_an_error_that_names_the_field(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{named}: "):
        wire(**fields)


def test_a_request_of_the_lab_needs_a_limit() -> None:
    with pytest.raises(ConfigError, match=r"^model.sampling.max_tokens: "):
        wire(sampling=PLAIN | {"max_tokens": None}).body([ASK], ())


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        (["model.provider=anthropic", "model.sampling.max_tokens=null"], "model"),
        (["auxiliary.provider=anthropic", "auxiliary.name=a", "auxiliary.sampling.max_tokens=null"], "auxiliary"),
        (
            ["judge.model.provider=anthropic", "judge.model.name=a", "judge.model.sampling.max_tokens=null"],
            "judge.model",
        ),
    ],
)
def test_a_missing_limit_is_found_in_the_configuration(fields: list[str], named: str) -> None:
    with pytest.raises(
        ConfigError, match=rf"^{named}\.sampling\.max_tokens: the Anthropic Messages API needs a number"
    ):
        load_config(fields)


def test_a_program_needs_no_limit_in_the_configuration() -> None:
    config = load_config(["agent.program=claude", "model.provider=anthropic", "model.name=a"])
    assert config.model.sampling.max_tokens is None
    assert wire_for(config.model, "a", "native").path == "/messages"


def test_reasoning_effort_asks_for_adaptive_thinking() -> None:
    sent = wire(reasoning_effort="xhigh", sampling=PLAIN | {"temperature": 1.0}).body([ASK], ())
    assert sent["thinking"] == {"type": "adaptive"}
    assert sent["output_config"] == {"effort": "xhigh"}


def test_an_endpoint_that_takes_a_temperature_with_thinking_gets_it_as_an_extra_field() -> None:
    assert wire(reasoning_effort="low", extra_body={"temperature": 0.6}).body([ASK], ())["temperature"] == 0.6


def test_extra_fields_go_before_those_of_the_lab() -> None:
    budget = {"type": "enabled", "budget_tokens": 1024}
    extra = {"thinking": budget, "output_config": {"format": {}}, "max_tokens": 1, "metadata": {"user_id": "u"}}
    sent = wire(reasoning_effort="low", extra_body=extra).body([ASK], ())
    assert sent["thinking"] == budget
    assert sent["output_config"] == {"format": {}, "effort": "low"}
    assert sent["max_tokens"] == 100
    assert sent["metadata"] == {"user_id": "u"}


def test_the_cache_is_marked_behind_the_tools_the_system_prompt_and_the_last_user_message() -> None:
    stored = read(reply(tool_use("a", "add", {"by": 1}), stop_reason="tool_use")).message
    conversation = [SYSTEM, ASK, stored, result("a", "{}")]
    body = wire(prompt_cache=True).body(conversation, [ADD, ADD])
    assert body["tools"][1] == {"name": "add", "description": "Adds to the sum.", "input_schema": SCHEMA, **MARK}
    assert body["system"] == [text("You add.") | MARK]
    assert body["messages"][-1]["content"] == [
        {"type": "tool_result", "tool_use_id": "a", "content": "{}", **MARK},
    ]
    assert str(body).count("cache_control") == 3
    assert "cache_control" not in str(conversation)


def test_the_text_format_sends_texts_only() -> None:
    stored = msgspec.structs.replace(asks(ToolCall("a", "add"), content="Call."), provider_fields={"anthropic": [{}]})
    sent = wire("hermes").body([SYSTEM, ASK, stored, Message("user", "Result."), ASK], [ADD])
    assert "tools" not in sent
    assert sent["messages"] == [
        {"role": "user", "content": [text("Add 1.")]},
        {"role": "assistant", "content": [text("Call.")]},
        {"role": "user", "content": [text("Result."), text("Add 1.")]},
    ]


def test_the_headers_are_the_key_and_the_version() -> None:
    assert wire().headers("k") == {"x-api-key": "k", "anthropic-version": "2023-06-01"}
    assert wire().headers("") == {"anthropic-version": "2023-06-01"}
    assert wire().path == "/messages"


# Replies


def test_a_reply_is_its_texts_its_thinking_and_its_calls() -> None:
    usage = {
        "input_tokens": 5,
        "cache_creation_input_tokens": 20,
        "cache_read_input_tokens": 300,
        "output_tokens": 7,
        "output_tokens_details": {"thinking_tokens": 3},
    }
    blocks = [thinking("Hm."), text("So "), thinking("Well."), text("be it."), tool_use("a", "add", {"by": 1})]
    got = read(reply(*blocks, stop_reason="tool_use", usage=usage))
    assert got.message.content == "So be it."
    assert got.message.reasoning == "Hm.\n\nWell."
    assert got.message.tool_calls == (ToolCall("a", "add", {"by": 1}),)
    assert got.finish_reason == "tool_calls"
    assert got.usage == Usage(325, 7, cached_tokens=300, cache_write_tokens=20, reasoning_tokens=3)


@pytest.mark.parametrize(
    ("word", "ending"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "refusal"),
    ],
)
def test_the_stop_reason_says_how_a_reply_ended(word: str, ending: str) -> None:
    assert read(reply(text("So."), stop_reason=word)).finish_reason == ending


@pytest.mark.parametrize("word", [None, "pause_turn", "compaction", 3, {}])
def test_an_unknown_stop_reason_is_no_answer(word: Any) -> None:
    with pytest.raises(ModelError, match=r"model\.finish_reasons") as error:
        read(reply(text("So."), stop_reason=word))
    assert type(error.value) is ModelError


@pytest.mark.parametrize(("word", "listed"), [(None, "null"), ("done", "DONE")])
def test_a_listed_stop_reason_is_sound(word: str | None, listed: str) -> None:
    assert read(reply(text("So."), stop_reason=word), finish_reasons=[listed]).finish_reason == "stop"


def test_a_reply_that_the_server_gave_up_is_tried_again() -> None:
    with pytest.raises(Failed, match="'error'"):
        read(reply(text("So."), stop_reason="error"))


@pytest.mark.parametrize("kind", ["overloaded_error", "api_error", "rate_limit_error", "timeout_error", "new_error"])
def test_a_passing_error_in_a_reply_is_a_failure_in_the_servers_words(kind: str) -> None:
    with pytest.raises(Failed, match=rf"^Busy now \({kind}\)$"):
        read({"type": "error", "error": {"type": kind, "message": "Busy\nnow"}})


@pytest.mark.parametrize(("kind", "status"), [("invalid_request_error", 400), ("authentication_error", 401)])
def test_a_lasting_error_in_a_reply_is_a_refusal(kind: str, status: int) -> None:
    with pytest.raises(Refused, match="prompt is too long") as error:
        read({"type": "error", "error": {"type": kind, "message": "prompt is too long: 9 tokens > 8 maximum"}})
    assert error.value.status == status


def test_an_error_of_a_server_that_leaves_out_the_type_is_one_too() -> None:
    with pytest.raises(Failed, match="Busy"):
        read({"error": {"message": "Busy"}})


@pytest.mark.parametrize("content", [None, "text", {}, 3])
def test_a_reply_without_content_is_none(content: object) -> None:
    with pytest.raises(ModelError, match="no content"):
        read(reply() | {"content": content})


def test_no_two_calls_of_a_conversation_share_an_id_and_the_stored_block_has_the_same() -> None:
    before = asks(ToolCall("toolu_0", "add"), ToolCall("call00300", "add"))
    blocks = [tool_use(call_id, "add", {"by": 1}) for call_id in ("toolu_0", "toolu_1", "toolu_1", "", "a:b")]
    got = read(reply(*blocks, stop_reason="tool_use"), SYSTEM, ASK, before).message
    ids = [call.id for call in got.tool_calls]
    assert len({"toolu_0", "call00300", *ids}) == 7
    assert ids[1] == "toolu_1"
    assert [block["id"] for block in got.provider_fields["anthropic"]] == ids
    check_sendable(SYSTEM, ASK, got, *(result(call_id, "{}") for call_id in ids))


def check_sendable(*messages: Message) -> None:
    """The API takes these messages."""
    check(
        wire(model="claude-fake").body(messages, [ADD]) if False else wire().body(messages, [ADD]), ["claude-fake"], []
    )


@pytest.mark.parametrize(
    ("name", "arguments", "error", "raw"),
    [
        ("add", '{"by": 1', "not a string", '{"by": 1'),
        ("add", [1], "not an array", "[1]"),
        ("add", None, "not null", "None"),
        ("", {"by": 1}, "does not name a tool", "{'by': 1}"),
        (None, {"by": 1}, "does not name a tool", "{'by': 1}"),
    ],
)
def test_a_broken_call_is_an_error_that_can_be_sent_back(name: Any, arguments: Any, error: str, raw: str) -> None:
    got = read(reply(tool_use("a", name, arguments), stop_reason="tool_use")).message
    (call,) = got.tool_calls
    assert error in call.error
    assert (call.raw, call.arguments) == (raw, {})
    check_sendable(SYSTEM, ASK, got, result("a", "{}"))


def test_a_call_that_is_no_name_keeps_it_and_can_be_sent_back() -> None:
    got = read(reply(tool_use("a", "add it", {}), stop_reason="tool_use")).message
    assert got.tool_calls == (ToolCall("a", "add it", {}),)
    check_sendable(SYSTEM, ASK, got, result("a", "{}"))


def test_calls_count_whatever_the_stop_reason() -> None:
    got = read(reply(text("So."), tool_use("a", "add", {}), stop_reason="end_turn"))
    assert got.message.tool_calls == (ToolCall("a", "add", {}),)
    assert got.finish_reason == "stop"


def test_an_announced_call_that_is_not_there_is_a_failure() -> None:
    with pytest.raises(Failed, match="no tool_use block"):
        read(reply(text("So."), stop_reason="tool_use"))


def test_a_call_that_was_cut_off_is_never_run() -> None:
    blocks = [tool_use("a", "add", {"by": 1}), tool_use("b", "add", {"by": 1})]
    whole, cut = read(reply(*blocks, stop_reason="max_tokens")).message.tool_calls
    assert not whole.error
    assert "cut off" in cut.error
    (whole,) = read(reply(blocks[0], text("So"), stop_reason="max_tokens")).message.tool_calls
    assert not whole.error


def test_the_text_format_keeps_the_text_whole() -> None:
    got = read(reply(thinking("Hm."), text("<tool_call>")), tool_format="hermes")
    assert got.message == Message("assistant", "<tool_call>", reasoning="Hm.")


# Streams


def answer(*blocks: dict[str, Any], stop_reason: str = "", **usage: int) -> dict[str, Any]:
    return message({"model": "claude-fake"}, Reply(blocks, stop_reason, usage), 1)


WHOLE = answer(
    thinking("Hm, é\U0001f600."), redacted("s"), text("So be it."), tool_use("a", "add", {"by": 1, "at": ["é"]}),
    tool_use("b", "add", {}), cache_read_input_tokens=30,
)  # fmt: skip


def test_a_stream_is_read_as_the_whole_reply() -> None:
    events = [*stream(WHOLE)]
    assert wire().assemble(events) == WHOLE
    assert read(wire().assemble(events)) == read(WHOLE)


def test_a_stream_that_ends_early_is_tried_again() -> None:
    events = [*stream(WHOLE)]
    for end in range(len(events)):
        with pytest.raises(Failed, match="ended before message_stop"):
            read(wire().assemble(events[:end]), finish_reasons=["null"])


def test_a_stream_without_a_stop_reason_is_no_answer() -> None:
    events = [event for event in stream(WHOLE) if event["type"] != "message_delta"]
    with pytest.raises(ModelError, match=r"model\.finish_reasons"):
        read(wire().assemble(events))


def test_what_a_stream_told_is_not_lost_by_a_later_null() -> None:
    events = [*stream(WHOLE)]
    nothing = {"type": "message_delta", "delta": {"stop_reason": None}, "usage": {"input_tokens": None}}
    assert wire().assemble([*events[:-1], nothing, events[-1]]) == WHOLE


def test_each_signature_is_a_whole_one() -> None:
    events = [*stream(answer(thinking("Hm.")))]
    place = next(n for n, event in enumerate(events) if "signature_delta" in str(event))
    assert wire().assemble([*events[: place + 1], *events[place:]]) == wire().assemble(events)


def test_input_that_no_record_can_hold_is_mended() -> None:
    broken = {"type": "input_json_delta", "partial_json": '{"by": "\ud800"}'}
    events = [*stream(answer(tool_use("a", "add", {})))]
    events.insert(4, {"type": "content_block_delta", "index": 0, "delta": broken})
    events = [event for event in events if "{}" not in str(event.get("delta"))]
    assert read(wire().assemble(events)).message.tool_calls[0].arguments == {"by": "?"}


def test_an_error_in_a_stream_is_one_of_the_reply() -> None:
    for kind, raised in (("overloaded_error", Failed), ("invalid_request_error", Refused)):
        events = [*stream(WHOLE)]
        events.insert(5, {"type": "error", "error": {"type": kind, "message": "Overloaded"}})
        with pytest.raises(raised, match="Overloaded"):
            read(wire().assemble(events))


def test_broken_input_of_a_call_is_kept_as_it_was_written() -> None:
    events = [*stream(answer(tool_use("a", "add", {"by": 1})))]
    last = max(n for n, event in enumerate(events) if event["type"] == "content_block_delta")
    del events[last]
    (call,) = read(wire().assemble(events)).message.tool_calls
    assert "not a string" in call.error
    assert '{"by": 1}'.startswith(call.raw)


def test_unknown_events_and_deltas_are_skipped() -> None:
    events = [*stream(WHOLE)]
    for delta in ({"type": "citations_delta", "citation": {}}, {"type": "new_delta", "text": "?"}, None):
        events.insert(4, {"type": "content_block_delta", "index": 0, "delta": delta})
    events[1:1] = [{"type": "new_event"}, None, "?", []]
    assert wire().assemble(events) == WHOLE


def test_a_stream_that_gives_every_block_the_same_index_is_read() -> None:
    events = [event | {"index": 0} if "index" in event else event for event in stream(WHOLE)]
    assert wire().assemble(events) == WHOLE


def test_a_block_without_a_start_is_read_from_its_deltas() -> None:
    events = [event for event in stream(answer(text("So be it."))) if event["type"] != "content_block_start"]
    assert read(wire().assemble(events)).message.content == "So be it."


# Exchanges


def opened(server: FakeAnthropicServer, **fields: Any) -> AbstractAsyncContextManager[ModelClient]:
    return open_native("anthropic", "claude-fake", server.base_url, **fields)


SCRIPT = [
    Reply(
        [
            thinking("Both at once."),
            text("Let me add."),
            tool_use("t1", "add", {"by": 1}),
            tool_use("t2", "add", {"by": 2}),
        ]
    ),
    Reply([thinking("Check."), redacted("why"), tool_use("t3", "add", {"by": -1})]),
    Reply([thinking("Enough."), text("The sum is 3.")]),
    Reply([thinking("More."), tool_use("t4", "add", {"by": 4})], usage={"cache_read_input_tokens": 50}),
    Reply([text("The sum is 7.")]),
]


@pytest.mark.anyio
@pytest.mark.parametrize(("streamed", "split"), [(False, 0), (True, 0), (True, 1), (True, 3)])
async def test_an_episode_runs_against_a_strict_server_and_replays(streamed: bool, split: int) -> None:
    server = FakeAnthropicServer(SCRIPT, split=split)
    async with server, opened(server, stream=streamed, reasoning_effort="high") as model:
        then = await play(model)
    assert server.refusals == []
    assert [request.get("stream", False) for request in server.requests] == [streamed] * 5
    check_played(then)
    assert [turn["content"] for turn in server.requests[-1]["messages"] if turn["role"] == "assistant"] == [
        list(each.blocks) for each in SCRIPT[:-1]
    ]
    await check_replay(then)


@pytest.mark.anyio
async def test_a_thinking_budget_is_an_extra_field() -> None:
    thought = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
    server = FakeAnthropicServer(SCRIPT)
    async with server, opened(server, extra_body=thought, sampling=PLAIN | {"max_tokens": 2000}) as model:
        assert (await play(model)).final_response == "The sum is 7."
    assert server.refusals == []


@pytest.mark.anyio
async def test_an_episode_in_the_text_format_runs_against_a_strict_server() -> None:
    call = '<tool_call>\n{"name": "add", "arguments": {"by": 1}}\n</tool_call>'
    server = FakeAnthropicServer([Reply([thinking("Hm."), text(call)]), "The sum is 1."])
    async with server, opened(server, tool_format="hermes", reasoning_effort="low") as model:
        await check_text_format(model)
    assert server.refusals == []


@pytest.mark.anyio
async def test_the_key_goes_as_the_api_wants_it_and_never_as_a_bearer_token() -> None:
    async with FakeAnthropicServer(["Hello."]) as server, opened(server) as model:
        assert (await model.generate([ASK], ())).message.content == "Hello."
    assert all(headers["x-api-key"] == KEY and "Authorization" not in headers for headers in server.headers)


@pytest.mark.anyio
async def test_a_model_that_is_not_served_is_found_before_the_run() -> None:
    async with FakeAnthropicServer(["Hello."], models=["another"]) as server:
        with pytest.raises(ConfigError, match=r"model\.name"):
            async with opened(server):
                pass


@pytest.mark.anyio
@pytest.mark.parametrize("streamed", [False, True])
async def test_an_overloaded_server_is_asked_again(streamed: bool) -> None:
    overloaded = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    failed = Reply(events=[overloaded]) if streamed else Reply(body=overloaded, status=529)
    async with FakeAnthropicServer([failed, "Hello."]) as server, opened(server, stream=streamed) as model:
        got = await model.generate([ASK], ())
    assert (got.message.content, got.retries) == ("Hello.", 1)


# Recorded exchanges


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("anthropic-*.json")), ids=lambda path: path.stem)
def test_a_recorded_episode_is_asked_and_read_the_same(path: Path) -> None:
    check_golden(path, AnthropicWire)


def test_there_are_recorded_episodes() -> None:
    assert [path.stem for path in sorted(GOLDEN.glob("anthropic-*.json"))] == ["anthropic-thinking", "anthropic-tools"]


# Anything at all

ENDS = [*WORDS, "pause_turn", "END_TURN"]


def test_no_mutated_reply_is_taken_for_more_than_it_is() -> None:
    random, taken = Random(1), 0
    for _ in range(6_000):
        received = mutated(WHOLE, random)
        if random.random() < 0.5 and isinstance(received, dict):
            received["stop_reason"] = random.choice(ENDS)
        if (got := read_anything(wire(), received)) and got.finish_reason in ("stop", "tool_calls"):
            taken += 1
            assert is_sound(received.get("stop_reason"))
    assert taken > 600


def test_no_mutated_stream_is_taken_for_more_than_it_is() -> None:
    random, taken = Random(2), 0
    events = [*stream(answer(thinking("Hm."), text("So."), tool_use("a", "add", {"by": 1})))]
    for _ in range(6_000):
        received = mutated(events, random)
        if random.random() < 0.3:
            _give_word(received, random.choice(ENDS))
        got = read_anything(wire(), wire().assemble(received))
        if got and got.finish_reason in ("stop", "tool_calls"):
            taken += 1
            told = [event for event in received if isinstance(event, dict)]
            assert any(event.get("type") == "message_stop" for event in told)
            assert any(map(is_sound, _stop_reasons(told)))
    assert taken > 600


def _give_word(events: Sequence[Any], word: object) -> None:
    for event in events:
        if isinstance(event, dict) and event.get("type") == "message_delta" and isinstance(event.get("delta"), dict):
            event["delta"]["stop_reason"] = word


def _stop_reasons(events: Sequence[dict[str, Any]]) -> list[object]:
    holders = [event.get("delta") for event in events] + [event.get("message") for event in events]
    return [holder.get("stop_reason") for holder in holders if isinstance(holder, dict)]


# The fake is as strict as the API

GOOD: dict[str, Any] = {
    "model": "claude-fake",
    "max_tokens": 2000,
    "thinking": {"type": "enabled", "budget_tokens": 1024},
    "system": [text("You add.")],
    "tools": [{"name": "add", "input_schema": SCHEMA}],
    "messages": [
        {"role": "user", "content": "Add 1."},
        {"role": "assistant", "content": [thinking("Hm."), tool_use("a", "add", {"by": 1})]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "{}"}, text("On.")]},
    ],
}
ISSUED = [GOOD["messages"][1]["content"]]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (put("max_tokens", ...), "max_tokens: Field required"),
        (put("seed", 1), "seed: Extra inputs are not permitted"),
        (put("max_tokens", 0), "max_tokens"),
        (put("temperature", 0.5), "may only be set to 1"),
        (put("temperature", 1.5), "range: 0..1"),
        (put("top_k", 3), "`top_k` must be unset"),
        (put("thinking.budget_tokens", 10), "greater than or equal to 1024"),
        (put("thinking.budget_tokens", 2000), "must be greater than `thinking.budget_tokens`"),
        (put("output_config", {"effort": "minimal"}), "output_config.effort"),
        (put("tools.0.name", "add it"), "should match pattern"),
        (put("tools.0.type", ...), None),
        (put("tools", ...), "must define tools"),
        (put("system.0.text", ""), "must be non-empty"),
        (put("messages.0.role", "system"), "Unexpected role"),
        (put("messages.0", {"role": "assistant", "content": "Hi."}), 'must use the "user" role'),
        (put("messages.0.content", ""), "non-empty"),
        (put("messages.0.content", []), "non-empty content"),
        (put("messages.0.content", " "), "non-whitespace"),
        (put("messages.1.content.0", ...), "cannot be modified"),
        (put("messages.1.content.0.thinking", "Ha."), "Invalid `signature`"),
        (put("messages.1.content.0", thinking("Ha.")), "cannot be modified"),
        (put("messages.1.content.0.cache_control", MARK), "Extra inputs"),
        (put("messages.1.content.1.input", "{}"), "valid dictionary"),
        (put("messages.1.content.1.id", "b"), "unexpected `tool_use_id`"),
        (put("messages.1.content.2", tool_use("b", "add", {})), "without `tool_result` blocks immediately after: b"),
        (put("messages.2.content.0", ...), "without `tool_result`"),
        (put("messages.2.content.0", text("First.")), "without `tool_result`"),
        (put("messages.3", {"role": "assistant", "content": "So "}), "trailing whitespace"),
        (put("messages.3", {"role": "assistant", "content": [thinking("Hm.")]}), "final block"),
        (put("messages.3", {"role": "assistant", "content": [text("So.")]}), None),
    ],
)  # fmt: skip
def test_the_fake_refuses_what_the_api_refuses(change: Any, words: str | None) -> None:
    body = msgspec.json.decode(msgspec.json.encode(GOOD))
    check(body, ["claude-fake"], ISSUED)
    try:
        change(body)
    except KeyError:
        return
    if words is None:
        check(body, ["claude-fake"], ISSUED)
        return
    with pytest.raises(Refusal) as refusal:
        check(body, ["claude-fake"], ISSUED)
    assert words in refusal.value.message


def test_the_fake_takes_four_cache_marks_and_no_more() -> None:
    body = msgspec.json.decode(msgspec.json.encode(GOOD))
    body["system"] = [text(str(n)) | MARK for n in range(4)]
    check(body, ["claude-fake"], [])
    body["tools"][0] |= MARK
    with pytest.raises(Refusal, match="maximum of 4 blocks"):
        check(body, ["claude-fake"], [])
