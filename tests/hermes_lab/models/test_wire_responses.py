"""The OpenAI Responses format: requests that the API takes, and replies that are read for what they are worth."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from fakes.api_server import Refusal
from fakes.mutate import mutated
from fakes.responses_server import (
    FakeResponsesServer,
    Reply,
    check,
    function_call,
    message,
    reasoning,
    refusal,
    response,
    stream,
)
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
from hermes_lab.errors import ConfigError, ModelError
from hermes_lab.models.refusals import Failed, Refused
from hermes_lab.models.wires.responses import ResponsesWire
from hermes_lab.protocols import ModelClient
from hermes_lab.types import Generation, Message, ToolCall, Usage

ASKED = {"role": "user", "content": "Add 1."}


def wire(tool_format: str = "native", **fields: Any) -> ResponsesWire:
    config = {"provider": "responses", "name": "gpt-fake", "sampling": PLAIN, **fields}
    return ResponsesWire(ModelConfig.model_validate(config), "gpt-fake", tool_format)


def sent_items(*messages: Message, tool_format: str = "native", **fields: Any) -> list[dict[str, Any]]:
    return wire(tool_format, **fields).body(messages, [ADD])["input"]


def check_sendable(*messages: Message) -> None:
    """The API takes these messages."""
    check(wire().body(messages, [ADD]), ["gpt-fake"], [])


def result(call_id: str, content: str) -> Message:
    return Message("tool", content, tool_call_id=call_id)


def asks(*calls: ToolCall, content: str = "") -> Message:
    return Message("assistant", content, tool_calls=calls)


def reply(*items: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return response({"model": "gpt-fake", "include": ["reasoning.encrypted_content"]}, Reply(items), 1) | fields


def read(received: object, *sent: Message, tool_format: str = "native", **fields: Any) -> Generation:
    return wire(tool_format, **fields).read(received, sent or (SYSTEM, ASK), [ADD])


# Requests


def test_a_request_leaves_nothing_at_the_server_and_has_flat_tools() -> None:
    assert wire().body([SYSTEM, ASK], [ADD]) == {
        "model": "gpt-fake",
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "max_output_tokens": 100,
        "instructions": "You add.",
        "input": [ASKED],
        "tools": [
            {
                "type": "function",
                "name": "add",
                "description": "Adds to the sum.",
                "parameters": SCHEMA,
                "strict": False,
            }
        ],
    }


def test_a_later_system_message_stays_in_its_place() -> None:
    body = wire().body([SYSTEM, ASK, Message("system", "Now subtract."), ASK], [])
    assert body["instructions"] == "You add."
    assert body["input"] == [ASKED, {"role": "system", "content": "Now subtract."}, ASKED]


def test_a_message_of_another_model_is_built_from_its_text_and_calls() -> None:
    calls = asks(ToolCall("f.add:0", "add", {"by": 1}), ToolCall("b", "no name!", error="unknown"), content="So.")
    conversation = [ASK, calls, result("f.add:0", "{}"), result("b", "")]
    assert sent_items(*conversation) == [
        ASKED,
        {"role": "assistant", "content": "So."},
        {"type": "function_call", "call_id": "f_add_0", "name": "add", "arguments": '{"by":1}'},
        {"type": "function_call", "call_id": "b", "name": "unknown", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "f_add_0", "output": "{}"},
        {"type": "function_call_output", "call_id": "b", "output": ""},
    ]
    check_sendable(*conversation)


def test_an_empty_answer_is_not_sent() -> None:
    assert sent_items(ASK, Message("assistant", ""), ASK) == [ASKED, ASKED]


def test_stored_items_are_sent_as_they_came() -> None:
    items = [
        reasoning("Hm.", summary="Short."),
        message("So.", phase="commentary"),
        {"type": "new_item", "id": "n", "data": {"any": [None]}},
        function_call("a", "add", {"by": 1}),
    ]
    got = read(reply(*items)).message
    assert got.provider_fields == {"responses": items}
    assert sent_items(ASK, got, result("a", "{}")) == [
        ASKED,
        *items,
        {"type": "function_call_output", "call_id": "a", "output": "{}"},
    ]


def test_what_the_api_gives_but_does_not_take_is_left_out() -> None:
    unsealed = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": None}
    empty = {"type": "message", "id": "msg_1", "role": "assistant", "content": []}
    got = read(reply(unsealed, message("So.", phase=None), empty, reasoning("And."), reasoning("then."))).message
    sent = sent_items(ASK, got)[1:]
    assert sent == [message("So.")]
    assert "phase" not in sent[0]
    check_sendable(ASK, got, ASK)


def test_open_reasoning_of_other_servers_is_sent_back() -> None:
    said = {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]}
    got = read(reply(said, message("So."))).message
    assert got.reasoning == "Hm."
    assert sent_items(ASK, got)[1] == said


def test_sampling_fields_are_sent_where_they_areput() -> None:
    body = wire(sampling={"max_tokens": None, "temperature": 0.5, "top_p": 0.9}).body([ASK], ())
    assert (body["temperature"], body["top_p"]) == (0.5, 0.9)
    assert set(body) == {"model", "store", "include", "temperature", "top_p", "input"}


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"sampling": PLAIN | {"top_k": 3}}, "model.sampling.top_k"),
        ({"sampling": PLAIN | {"min_p": 0.0}}, "model.sampling.min_p"),
        ({"sampling": PLAIN | {"seed": 0}}, "model.sampling.seed"),
        ({"sampling": PLAIN | {"stop": ["END"]}}, "model.sampling.stop"),
        ({"sampling": PLAIN | {"presence_penalty": 0.0}}, "model.sampling.presence_penalty"),
        ({"sampling": PLAIN | {"frequency_penalty": 1.0}}, "model.sampling.frequency_penalty"),
        ({"token_ids": True}, "model.token_ids"),
    ],
)
def test_what_the_api_does_not_have_is_an_error_that_names_the_field(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{named}: "):
        wire(**fields)


def test_extra_fields_go_before_those_of_the_lab() -> None:
    extra = {
        "reasoning": {"summary": "auto", "effort": "low"},
        "store": True,
        "include": ["message.output_text.logprobs"],
        "text": {"verbosity": "low"},
    }
    body = wire(reasoning_effort="high", extra_body=extra).body([ASK], ())
    assert body["reasoning"] == {"summary": "auto", "effort": "high"}
    assert body["store"] is False
    assert body["include"] == ["message.output_text.logprobs", "reasoning.encrypted_content"]
    assert body["text"] == {"verbosity": "low"}


def test_the_text_format_sends_texts_only() -> None:
    stored = msgspec.structs.replace(asks(ToolCall("a", "add"), content="Call."), provider_fields={"responses": [{}]})
    body = wire("hermes").body([SYSTEM, ASK, stored, Message("user", "Result.")], [ADD])
    assert "tools" not in body
    assert body["input"] == [
        ASKED,
        {"role": "assistant", "content": "Call."},
        {"role": "user", "content": "Result."},
    ]


def test_the_key_is_a_bearer_token() -> None:
    assert wire().headers("k") == {"Authorization": "Bearer k"}
    assert wire().headers("") == {}
    assert wire().path == "/responses"


# Replies


def test_a_reply_is_its_texts_its_reasoning_and_its_calls() -> None:
    usage = {
        "input_tokens": 325,
        "input_tokens_details": {"cached_tokens": 300},
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 3},
    }
    two_parts = message("So ")
    two_parts["content"].append({"type": "output_text", "text": "be it."})
    items = [reasoning("x", summary="Hm."), message("First.", phase="commentary"), two_parts]
    got = read(reply(*items, function_call("a", "add", '{"by": 1}'), usage=usage))
    assert got.message.content == "First.\n\nSo be it."
    assert got.message.reasoning == "Hm."
    assert got.message.tool_calls == (ToolCall("a", "add", {"by": 1}),)
    assert got.finish_reason == "tool_calls"
    assert got.usage == Usage(325, 7, cached_tokens=300, reasoning_tokens=3)


@pytest.mark.parametrize(
    ("reason", "ending"),
    [("max_output_tokens", "length"), ("content_filter", "content_filter"), (None, "length"), ("stop", "length")],
)
def test_an_incomplete_reply_says_why(reason: str | None, ending: str) -> None:
    received = reply(message("So"), status="incomplete", incomplete_details={"reason": reason})
    assert read(received).finish_reason == ending


def test_a_complete_reply_is_sound() -> None:
    assert read(reply(message("So."))).finish_reason == "stop"


@pytest.mark.parametrize("status", [None, "in_progress", "queued", "new", 3, {}])
def test_an_unfinished_status_is_no_answer(status: object) -> None:
    with pytest.raises(ModelError, match=r"model\.finish_reasons") as error:
        read(reply(message("So."), status=status))
    assert type(error.value) is ModelError


def test_an_unknown_reason_is_no_answer() -> None:
    with pytest.raises(ModelError, match=r"'new'.*model\.finish_reasons"):
        read(reply(message("So."), status="incomplete", incomplete_details={"reason": "new"}))


def test_a_listed_status_is_sound() -> None:
    assert read(reply(message("So."), status=None), finish_reasons=["null"]).finish_reason == "stop"


def test_a_cancelled_reply_is_tried_again() -> None:
    with pytest.raises(Failed, match="'cancelled'"):
        read(reply(message("So."), status="cancelled"))


@pytest.mark.parametrize("status", ["failed", "completed"])
@pytest.mark.parametrize(
    ("code", "raised"), [("server_error", Failed), ("rate_limit_exceeded", Failed), (None, Failed)]
)
def test_a_passing_error_is_a_failure_in_the_servers_words(status: str, code: str | None, raised: type) -> None:
    with pytest.raises(raised, match=r"^Busy now") as error:
        read(reply(status=status, error={"code": code, "message": "Busy\nnow"}))
    assert (code or "") in str(error.value)


def test_a_failed_reply_without_an_error_is_a_failure() -> None:
    with pytest.raises(Failed, match="does not say why"):
        read(reply(status="failed", error=None))


@pytest.mark.parametrize(
    "code", ["context_length_exceeded", "invalid_prompt", "image_too_large", "insufficient_quota", "model_not_found"]
)
def test_a_lasting_error_is_a_refusal_that_names_the_code(code: str) -> None:
    with pytest.raises(Refused, match=rf"^Your input\. \({code}\)$") as error:
        read(reply(status="failed", error={"code": code, "message": "Your input."}))
    assert error.value.status == 400


def test_an_error_without_a_code_is_known_by_its_type() -> None:
    with pytest.raises(Refused, match="invalid_request_error"):
        read({"error": {"type": "invalid_request_error", "code": None, "message": "No."}})
    with pytest.raises(Failed, match="overloaded"):
        read({"error": {"type": "overloaded", "message": "Busy."}})


def test_a_refusal_is_told_and_is_no_answer() -> None:
    got = read(reply(reasoning("x"), refusal("I can't help.")))
    assert (got.finish_reason, got.message.content) == ("refusal", "I can't help.")


@pytest.mark.parametrize("output", [None, "text", {}, 3])
def test_a_reply_without_output_is_none(output: object) -> None:
    with pytest.raises(ModelError, match="no output"):
        read(reply() | {"output": output})


def test_no_two_calls_of_a_conversation_share_an_id_and_the_stored_item_has_the_same() -> None:
    before = asks(ToolCall("call_0", "add"), ToolCall("call00300", "add"))
    calls = [function_call(call_id, "add", {"by": 1}) for call_id in ("call_0", "call_1", "call_1", "", "a:b")]
    got = read(reply(*calls), SYSTEM, ASK, before).message
    ids = [call.id for call in got.tool_calls]
    assert len({"call_0", "call00300", *ids}) == 7
    assert ids[1] == "call_1"
    assert [item["call_id"] for item in got.provider_fields["responses"]] == ids
    check_sendable(SYSTEM, ASK, got, *(result(call_id, "{}") for call_id in ids))


@pytest.mark.parametrize(
    ("name", "arguments", "error", "raw"),
    [
        ("add", '{"by": 1', "not JSON", '{"by": 1'),
        ("add", "[1]", "must be a JSON object", "[1]"),
        ("add", [1], "must be a JSON object", "[1]"),
        ("", '{"by": 1}', "does not name a tool", '{"by": 1}'),
    ],
)
def test_a_broken_call_is_an_error_that_can_be_sent_back(name: Any, arguments: Any, error: str, raw: str) -> None:
    got = read(reply(function_call("a", name, "{}") | {"arguments": arguments})).message
    (call,) = got.tool_calls
    assert error in call.error
    assert (call.raw, call.arguments) == (raw, {})
    assert got.provider_fields["responses"][0]["arguments"] == "{}"
    check_sendable(SYSTEM, ASK, got, result("a", "{}"))


@pytest.mark.parametrize(("written", "read_as"), [({"by": 1}, {"by": 1}), ("", {}), (None, {})])
def test_arguments_that_are_no_text_are_read_and_sent_back_as_text(written: object, read_as: dict[str, Any]) -> None:
    got = read(reply(function_call("a", "add", "{}") | {"arguments": written})).message
    assert got.tool_calls == (ToolCall("a", "add", read_as),)
    check_sendable(SYSTEM, ASK, got, result("a", "{}"))


def test_a_call_that_was_cut_off_is_never_run() -> None:
    calls = [function_call("a", "add", {"by": 1}), function_call("b", "add", {"by": 1})]
    cut = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    first, last = read(reply(*calls, **cut)).message.tool_calls
    assert not first.error
    assert "cut off" in last.error
    (marked,) = read(reply(calls[0] | {"status": "incomplete"})).message.tool_calls
    assert "cut off" in marked.error


def test_the_text_format_keeps_the_text_whole() -> None:
    got = read(reply(reasoning("x", summary="Hm."), message("<tool_call>")), tool_format="hermes")
    assert got.message == Message("assistant", "<tool_call>", reasoning="Hm.")


# Streams

WHOLE = reply(
    reasoning("x", summary="Hm, é\U0001f600."), message("So be it."), function_call("a", "add", {"by": 1, "at": ["é"]})
)


@pytest.mark.parametrize("hollow", [False, True])
def test_a_stream_is_read_as_the_whole_reply(hollow: bool) -> None:
    assert wire().assemble([*stream(WHOLE, hollow=hollow)]) == WHOLE


def test_items_of_a_hollow_stream_are_put_in_order() -> None:
    events = [*stream(WHOLE, hollow=True)]
    assert wire().assemble([*reversed(events[:-1]), events[-1]]) == WHOLE


def test_a_stream_that_ends_early_is_tried_again() -> None:
    events = [*stream(WHOLE)]
    for end in range(len(events)):
        with pytest.raises(Failed, match="before the response was complete"):
            read(wire().assemble(events[:end]), finish_reasons=["null"])


def test_a_hollow_stream_that_lost_an_item_is_tried_again() -> None:
    events = [*stream(WHOLE, hollow=True)]
    events.remove(next(event for event in events if event["type"] == "response.output_item.done"))
    with pytest.raises(Failed, match="did not end"):
        read(wire().assemble(events))


def test_the_last_event_says_what_the_response_leaves_out() -> None:
    for last, ending in (("completed", "stop"), ("incomplete", "length")):
        events = [{"type": f"response.{last}", "response": {"output": [message("So.")]}}]
        assert read(wire().assemble(events)).finish_reason == ending
    events = [{"type": "response.incomplete", "response": {"status": "completed", "output": [message("So.")]}}]
    assert read(wire().assemble(events)).finish_reason == "length"
    with pytest.raises(Failed, match="does not say why"):
        read(wire().assemble([{"type": "response.failed"}]))


@pytest.mark.parametrize("nested", [False, True])
def test_an_error_in_a_stream_is_one_of_the_reply(nested: bool) -> None:
    for code, raised in (("server_error", Failed), ("context_length_exceeded", Refused)):
        error = {"code": code, "message": "Sorry.", "param": None}
        event = {"type": "error", "error": error} if nested else {"type": "error", **error}
        with pytest.raises(raised, match=rf"^Sorry\. \({code}\)$"):
            read(wire().assemble([*[*stream(WHOLE)][:5], event]))


def test_an_error_event_without_a_code_says_what_it_says() -> None:
    with pytest.raises(Failed, match=r"^Sorry\.$"):
        read(wire().assemble([{"type": "error", "message": "Sorry."}]))


def test_unknown_events_are_skipped() -> None:
    events = [{"type": "new_event"}, None, "?", [], *stream(WHOLE)]
    assert wire().assemble(events) == WHOLE


# Exchanges


def opened(server: FakeResponsesServer, **fields: Any) -> AbstractAsyncContextManager[ModelClient]:
    return open_native("responses", "gpt-fake", server.base_url, **fields)


SCRIPT = [
    Reply(
        [
            reasoning("Both at once.", summary="Both."),
            message("Let me add.", phase="commentary"),
            function_call("c1", "add", {"by": 1}),
            function_call("c2", "add", {"by": 2}),
        ]
    ),
    Reply([reasoning("Check."), function_call("c3", "add", {"by": -1})]),
    Reply([reasoning("Enough."), message("The sum is 3.", phase="final_answer")]),
    Reply(
        [reasoning("More."), function_call("c4", "add", {"by": 4})],
        usage={"input_tokens_details": {"cached_tokens": 50}},
    ),
    Reply([message("The sum is 7.")]),
]


@pytest.mark.anyio
@pytest.mark.parametrize(("streamed", "split"), [(False, 0), (True, 0), (True, 1), (True, 3)])
async def test_an_episode_runs_against_a_strict_server_and_replays(streamed: bool, split: int) -> None:
    async with FakeResponsesServer(SCRIPT, split=split) as server, opened(server, stream=streamed) as model:
        then = await play(model)
    assert server.refusals == []
    assert [request.get("stream", False) for request in server.requests] == [streamed] * 5
    check_played(then)
    given = [item for each in SCRIPT[:-1] for item in each.items]
    assert [item for item in server.requests[-1]["input"] if "id" in item] == given
    await check_replay(then)


@pytest.mark.anyio
async def test_an_episode_runs_against_a_server_whose_last_event_is_hollow() -> None:
    script = [Reply(each.items, hollow=True) for each in SCRIPT]
    async with FakeResponsesServer(script) as server, opened(server, stream=True, reasoning_effort="high") as model:
        then = await play(model)
    assert server.refusals == []
    assert then.final_response == "The sum is 7."
    assert server.requests[0]["reasoning"] == {"effort": "high"}


@pytest.mark.anyio
async def test_an_episode_in_the_text_format_runs_against_a_strict_server() -> None:
    call = '<tool_call>\n{"name": "add", "arguments": {"by": 1}}\n</tool_call>'
    script = [Reply([reasoning("x", summary="Hm."), message(call)]), "The sum is 1."]
    async with FakeResponsesServer(script) as server, opened(server, tool_format="hermes") as model:
        await check_text_format(model)
    assert server.refusals == []


@pytest.mark.anyio
async def test_a_model_that_is_not_served_is_found_before_the_run() -> None:
    async with FakeResponsesServer(["Hello."], models=["another"]) as server:
        with pytest.raises(ConfigError, match=r"model\.name"):
            async with opened(server):
                pass


@pytest.mark.anyio
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_reply_that_failed_is_asked_for_again(streamed: bool) -> None:
    failed = Reply(status="failed", error={"code": "server_error", "message": "Sorry."})
    async with FakeResponsesServer([failed, "Hello."]) as server, opened(server, stream=streamed) as model:
        got = await model.generate([ASK], ())
    assert (got.message.content, got.retries) == ("Hello.", 1)


# Recorded exchanges


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("responses-*.json")), ids=lambda path: path.stem)
def test_a_recorded_episode_is_asked_and_read_the_same(path: Path) -> None:
    check_golden(path, ResponsesWire)


def test_there_are_recorded_episodes() -> None:
    assert [path.stem for path in sorted(GOLDEN.glob("responses-*.json"))] == ["responses-reasoning"]


# Anything at all

ENDS = [*WORDS, "in_progress", "queued"]


def test_no_mutated_reply_is_taken_for_more_than_it_is() -> None:
    random, taken = Random(1), 0
    for _ in range(6_000):
        received = mutated(WHOLE, random)
        if random.random() < 0.5 and isinstance(received, dict):
            received["status"] = random.choice(ENDS)
        if (got := read_anything(wire(), received)) and got.finish_reason in ("stop", "tool_calls"):
            taken += 1
            assert is_sound(received.get("status"))
    assert taken > 600


@pytest.mark.parametrize("hollow", [False, True])
def test_no_mutated_stream_is_taken_for_more_than_it_is(hollow: bool) -> None:
    random, taken = Random(2), 0
    events = [*stream(reply(reasoning("x"), message("So."), function_call("a", "add", {"by": 1})), hollow=hollow)]
    for _ in range(10_000):
        received = mutated(events, random)
        if random.random() < 0.3:
            _give_status(received, random.choice(ENDS))
        got = read_anything(wire(), wire().assemble(received))
        if got and got.finish_reason in ("stop", "tool_calls"):
            taken += 1
            last = [e for e in received if isinstance(e, dict) and str(e.get("type")).startswith("response.c")]
            assert any(_is_complete(event) for event in last)
    assert taken > 1_000


def _give_status(events: Sequence[Any], word: object) -> None:
    for event in events:
        if isinstance(event, dict) and isinstance(event.get("response"), dict):
            event["response"]["status"] = word


def _is_complete(event: dict[str, Any]) -> bool:
    answered = event.get("response")
    told = answered.get("status", "completed") if isinstance(answered, dict) else "completed"
    return event["type"] == "response.completed" and is_sound(told)


# The fake is as strict as the API

REASONED = [reasoning("Hm."), function_call("a", "add", {"by": 1})]
GOOD: dict[str, Any] = {
    "model": "gpt-fake",
    "store": False,
    "include": ["reasoning.encrypted_content"],
    "reasoning": {"effort": "low"},
    "instructions": "You add.",
    "tools": [{"type": "function", "name": "add", "parameters": SCHEMA, "strict": False}],
    "input": [ASKED, *REASONED, {"type": "function_call_output", "call_id": "a", "output": "{}"}],
}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (put("model", ...), "Missing required parameter: 'model'."),
        (put("seed", 1), "Unknown parameter: 'seed'."),
        (put("stop", ["END"]), "Unknown parameter: 'stop'."),
        (put("max_output_tokens", 8), "integer below minimum value"),
        (put("previous_response_id", "resp_1"), "Previous response with id 'resp_1' not found."),
        (put("reasoning.effort", "huge"), "reasoning.effort"),
        (put("include", ["everything"]), "Invalid value: 'everything'."),
        (put("tools.0", ADD), "Unknown parameter: 'tools[0].function'."),
        (put("tools.0.name", "add it"), "does not match pattern"),
        (put("tools.0.strict", ...), "'additionalProperties' is required"),
        (put("input.0.status", None), "Invalid type for 'input[0].status'"),
        (put("input.0.role", "tool"), "Invalid value: 'tool'."),
        (put("input.0.content", [{"type": "output_text", "text": "x"}]), "Invalid value: 'output_text'."),
        (put("input.1.summary", ...), "Missing required parameter: 'input[1].summary'."),
        (put("input.1.encrypted_content", ...), "not found. Items are not persisted"),
        (put("input.1.encrypted_content", "00.11"), "could not be verified"),
        (put("input.1", ...), "without its required 'reasoning' item"),
        (put("input.2", {"type": "message", "role": "assistant", "content": "x"}), "No tool call found"),
        (put("input.2.id", ...), "without its required following item"),
        (put("input.2.arguments", {"by": 1}), "Invalid type for 'input[2].arguments'"),
        (put("input.2.call_id", "b"), "No tool call found for function call output with call_id a."),
        (put("input.3", ...), "No tool output found for function call a."),
    ],
)
def test_the_fake_refuses_what_the_api_refuses(change: Any, words: str) -> None:
    body = msgspec.json.decode(msgspec.json.encode(GOOD))
    check(body, ["gpt-fake"], [REASONED])
    change(body)
    with pytest.raises(Refusal) as refused:
        check(body, ["gpt-fake"], [REASONED])
    assert words in refused.value.message
