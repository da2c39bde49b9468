"""Replies that are told while they come: the same reply as a whole one, told in pieces, in all wire formats."""

import json
from random import Random
from typing import Any

import msgspec
import pytest
import quirks
from fakes import anthropic_server as messages_api
from fakes import responses_server as responses_api
from fakes.anthropic_server import FakeAnthropicServer
from fakes.mutate import mutated
from fakes.openai_server import FakeOpenAIServer, Reply, function_call
from native_wires import PLAIN, open_native
from streams import ADD, ASK, ask, events, streamed

from hermes_lab.config.schema import ModelConfig
from hermes_lab.models.client import wire_for
from hermes_lab.models.remote import open_endpoints
from hermes_lab.models.wires.sse import events_of
from hermes_lab.protocols import Delta
from hermes_lab.types import Message

pytestmark = pytest.mark.anyio
UNICODE = "Fünf 漢字 🙂 a < b"
CALLS = [function_call("a", "add", {"by": 1, "of": "é"}), function_call("b", "add", {"by": 2})]


SENT = {
    "an answer": Reply(UNICODE),
    "calls": Reply("Look.", tool_calls=CALLS),
    "calls alone": Reply(None, tool_calls=CALLS),
    "reasoning_content": Reply(UNICODE, message={"reasoning_content": "2 and 2"}),
    "reasoning": Reply("4", message={"reasoning": "2 and 2"}),
    "tags": Reply("<think>2 and 2</think>\n\n4"),
    "half a reply": Reply("One, two", finish_reason="length"),
    "a refusal": Reply(None, message={"refusal": "I will not."}),
}


@pytest.mark.parametrize("split", [0, 1, 7])
@pytest.mark.parametrize("reply", SENT.values(), ids=SENT)
async def test_a_streamed_chat_completion_is_the_whole_one(reply: Reply, split: int) -> None:
    token_ids = not reply.message and not reply.tool_calls
    async with FakeOpenAIServer([reply], split=split) as server:
        made = ModelConfig(name="fake", base_url=server.base_url, token_ids=token_ids)
        async with open_endpoints(made, [""], tool_format="native", concurrency=4) as (model,):
            whole = await model.generate(ASK, [ADD])
            told = await streamed(model)
    assert told.reply == whole
    assert "restart" not in told.kinds()
    assert told.said("reasoning") == whole.message.reasoning
    assert told.said("text") == whole.message.content.removeprefix("<think>2 and 2</think>\n\n")
    assert len(told.deltas) > 3 or not told.said("text")
    asked, streaming = server.requests
    assert streaming == asked | {"stream": True, "stream_options": {"include_usage": True}}
    assert bool(whole.token_ids) == token_ids


async def test_calls_in_a_stream_are_put_together_by_index() -> None:
    told, _ = await ask(Reply("Look.", tool_calls=CALLS))
    assert [(call.id, call.arguments) for call in told.reply.message.tool_calls] == [
        ("a", {"by": 1, "of": "é"}),
        ("b", {"by": 2}),
    ]
    assert told.said("text") == "Look."


ITEMS = [
    responses_api.reasoning("hm", summary="Two and two."),
    responses_api.message(UNICODE),
    responses_api.function_call("a", "add", {"by": 1}),
    responses_api.function_call("b", "add", {"by": 2}),
]
BLOCKS = [
    messages_api.thinking("Two and two."),
    messages_api.text(UNICODE),
    messages_api.tool_use("a", "add", {"by": 1}),
    messages_api.tool_use("b", "add", {"by": 2}),
]
ITEMS_SENT, BLOCKS_SENT = responses_api.Reply(ITEMS), messages_api.Reply(BLOCKS)
PROVIDERS = {"Messages": "anthropic", "Responses": "responses", "a hollow Responses": "responses"}
NATIVE: dict[str, Any] = {
    "Messages": lambda split: FakeAnthropicServer([BLOCKS_SENT], split=split),
    "Responses": lambda split: responses_api.FakeResponsesServer([ITEMS_SENT], split=split),
    "a hollow Responses": lambda split: responses_api.FakeResponsesServer(
        [responses_api.Reply(ITEMS, hollow=True)], split=split
    ),
}


@pytest.mark.parametrize("split", [0, 1, 7])
@pytest.mark.parametrize("api", NATIVE)
async def test_a_streamed_native_reply_is_the_whole_one(api: str, split: int) -> None:
    made = NATIVE[api](split)
    async with made as server, open_native(PROVIDERS[api], made.served[0], server.base_url) as model:
        whole = await model.generate(ASK, [ADD])
        told = await streamed(model)
    # The fakes count the bytes of a request as its tokens.
    usage = msgspec.structs.replace(whole.usage, prompt_tokens=told.reply.usage.prompt_tokens)
    assert told.reply == msgspec.structs.replace(whole, usage=usage)
    assert len(told.reply.message.tool_calls) == 2
    assert (told.said("reasoning"), told.said("text")) == ("Two and two.", UNICODE)
    assert "restart" not in told.kinds()
    assert len(told.deltas) > 4
    assert server.requests[1] == server.requests[0] | {"stream": True}


@pytest.mark.parametrize("api", ["chat", "Messages", "Responses"])
def test_whatever_the_event_what_is_told_is_text(api: str) -> None:
    whole = events({"content": "4", "reasoning": [{"text": "hm"}], "refusal": "no"})
    sent: list[Any] = [*events_of(whole), *messages_api.stream(messages_api.message({"model": "m"}, BLOCKS_SENT, 1))]
    sent += responses_api.stream(responses_api.response({"model": "m"}, ITEMS_SENT, 1))
    random, pieces = Random(6), 0
    config = ModelConfig.model_validate({"provider": PROVIDERS.get(api, "openai"), "sampling": PLAIN})
    wire = wire_for(config, "m", "native")
    for event in [mutated(event, random) for event in sent * 200]:
        for delta in wire.deltas(event):
            assert isinstance(delta.text, str)
            pieces += bool(delta.text)
    assert pieces > 100


async def test_messages_and_thoughts_are_told_apart() -> None:
    items = [
        responses_api.reasoning("a", summary="One."),
        responses_api.message("First."),
        responses_api.reasoning("b", summary="Two."),
        responses_api.refusal("No."),
    ]
    async with (
        responses_api.FakeResponsesServer([responses_api.Reply(items)]) as server,
        open_native("responses", "gpt-fake", server.base_url) as model,
    ):
        told = await streamed(model)
    assert told.said("text") == told.reply.message.content == "First.\n\nNo."
    assert told.said("reasoning") == told.reply.message.reasoning == "One.\n\nTwo."


async def test_commentary_before_an_answer_is_taken_back() -> None:
    items = [responses_api.message("I look.", phase="commentary"), responses_api.message("4", phase="final_answer")]
    async with (
        responses_api.FakeResponsesServer([responses_api.Reply(items)]) as server,
        open_native("responses", "gpt-fake", server.base_url) as model,
    ):
        told = await streamed(model)
    assert told.said("text") == told.reply.message.content == "4"


@pytest.mark.parametrize("server", quirks.STREAMS)
async def test_the_stream_of_a_server_is_told(server: str) -> None:
    told, _ = await ask(Reply(pieces=[quirks.STREAMS[server]]))
    assert told.deltas == [Delta("text", "4")]


@pytest.mark.parametrize(
    ("deltas", "text", "reasoning"),
    [
        (
            [{"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]}, {"content": "4"}],
            "4",
            "hm",
        ),
        ([{"reasoning": each, "reasoning_details": [{"text": each}]} for each in "hm"] + [{"content": "4"}], "4", "hm"),
        ([{"content": None, "thinking": "hm"}, {"content": " 4"}, {"content": " \n"}], "4", "hm"),
    ],
    ids=["parts", "two fields", "spaces"],
)
async def test_reasoning_is_told_as_that(deltas: list[dict[str, Any]], text: str, reasoning: str) -> None:
    told, _ = await ask(Reply(pieces=[events(*deltas)]))
    assert (told.said("text"), told.said("reasoning")) == (text, reasoning)


async def test_a_reply_that_is_no_stream_is_told_once() -> None:
    body = {"choices": [{"message": {"content": "4", "reasoning": "hm"}, "finish_reason": "stop"}]}
    told, _ = await ask(Reply(body=body))
    assert told.deltas == [Delta("reasoning", "hm"), Delta("text", "4")]
    in_a_stream, _ = await ask(Reply(pieces=[f"data: {json.dumps(body)}\n\ndata: [DONE]\n\n".encode()]))
    assert in_a_stream.deltas == told.deltas


CALL = '<tool_call>\n{"name": "add", "arguments": {}}\n</tool_call>'


@pytest.mark.parametrize("split", [0, 1, 7])
async def test_calls_and_reasoning_in_the_text_format_are_no_text(split: int) -> None:
    text = f"<think>Add?</think>\nI add.\n{CALL}"
    told, server = await ask(text, tools=[], tool_format="hermes", split=split)
    assert told.reply.message == Message("assistant", text)
    assert (told.said("reasoning"), told.said("text")) == ("Add?", "I add.")
    whole, _ = await ask(
        Reply(body={"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}),
        tools=[],
        tool_format="hermes",
    )
    assert whole.deltas == [Delta("reasoning", "Add?"), Delta("text", "I add.")]
    assert "tools" not in server.requests[0]


async def test_the_last_event_is_told_even_without_a_line_break_after_it() -> None:
    last = {"choices": [{"index": 0, "delta": {"content": "2"}, "finish_reason": "stop"}]}
    pieces = [events({"content": "4"}, end=""), f"data: {json.dumps(last)}".encode()]
    told, _ = await ask(Reply(pieces=pieces), tools=[], tool_format="hermes")
    assert told.said("text") == "42"


async def test_the_end_of_a_text_is_told_even_if_it_looks_like_a_tag() -> None:
    told, _ = await ask("4 <thin", tools=[], tool_format="hermes")
    assert told.said("text") == "4 <thin"


@pytest.mark.parametrize(
    ("parser", "text"),
    [("qwen", f"I add.\n{CALL}"), ("mistral", 'I add.[TOOL_CALLS][{"name": "add", "arguments": {}}]')],
)
async def test_calls_that_a_parser_reads_are_no_text(parser: str, text: str) -> None:
    told, _ = await ask(text, tool_parser=parser)
    assert [call.name for call in told.reply.message.tool_calls] == ["add"]
    assert (told.said("text"), "restart" in told.kinds()) == ("I add.", False)


async def test_a_bare_call_is_taken_back() -> None:
    told, _ = await ask('I add.\n```json\n{"name": "add", "arguments": {"by": 1}}\n```')
    assert [call.name for call in told.reply.message.tool_calls] == ["add"]
    assert told.said("text") == told.reply.message.content == "I add."
