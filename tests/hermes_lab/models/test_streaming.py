"""Replies that are told while they come: the same reply as a whole one, told in pieces, in all wire formats."""

import json
from typing import Any, NamedTuple

import anyio
import msgspec
import pytest
import quirks
from fakes import anthropic_server as messages_api
from fakes import responses_server as responses_api
from fakes.anthropic_server import FakeAnthropicServer
from fakes.openai_server import FakeOpenAIServer, Reply, function_call
from native_wires import open_native

from hermes_lab.config.schema import ModelConfig
from hermes_lab.errors import ContextFull, ModelError
from hermes_lab.models import endpoint, fleet
from hermes_lab.models.client import EndpointClient
from hermes_lab.models.refusals import NoReply
from hermes_lab.models.remote import open_endpoints
from hermes_lab.models.wires.sse import EventReader, events_of
from hermes_lab.protocols import Delta, ModelClient, StreamingModel
from hermes_lab.types import Generation, Message, Usage

pytestmark = pytest.mark.anyio
ASK = [Message("system", "Be brief."), Message("user", "Go.")]
ADD = {"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": {"type": "object"}}}
UNICODE = "Fünf 漢字 🙂 a < b"
CALLS = [function_call("a", "add", {"by": 1, "of": "é"}), function_call("b", "add", {"by": 2})]


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "_FIRST_WAIT", 0.001)
    monkeypatch.setattr(fleet, "backoff", lambda tried: 0.0)


class Told(NamedTuple):
    """A streamed reply, and what was told of it."""

    reply: Generation
    deltas: list[Delta]

    def said(self, kind: str) -> str:
        """The text of that kind since the last restart."""
        last = max((n for n, delta in enumerate(self.deltas) if delta.kind == "restart"), default=-1)
        return "".join(delta.text for delta in self.deltas[last + 1 :] if delta.kind == kind)

    def kinds(self) -> list[str]:
        return [delta.kind for delta in self.deltas]


async def streamed(model: ModelClient, tools: list[Any] | None = None) -> Told:
    assert isinstance(model, StreamingModel)
    deltas: list[Delta] = []
    return Told(await model.stream(ASK, [ADD] if tools is None else tools, deltas.append), deltas)


async def ask(
    *script: str | Reply, tools: list[Any] | None = None, split: int = 0, tool_format: str = "native", **config: Any
) -> tuple[Told, FakeOpenAIServer]:
    """What a fake server with this script streams."""
    async with FakeOpenAIServer(list(script), split=split) as server:
        made = ModelConfig(name="fake", base_url=server.base_url, **config)
        async with open_endpoints(made, [""], tool_format=tool_format, concurrency=4) as (model,):
            return await streamed(model, tools), server


def events(*deltas: dict[str, Any], end: str = "stop") -> bytes:
    """A stream of these deltas; without an end it is cut."""
    chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    chunks += [{"choices": [{"index": 0, "delta": {}, "finish_reason": end}]}] if end else []
    return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks).encode() + (
        b"data: [DONE]\n\n" if end else b""
    )


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
NATIVE: dict[str, Any] = {
    "Messages": lambda split: FakeAnthropicServer([messages_api.Reply(BLOCKS)], split=split),
    "Responses": lambda split: responses_api.FakeResponsesServer([responses_api.Reply(ITEMS)], split=split),
    "a hollow Responses": lambda split: responses_api.FakeResponsesServer(
        [responses_api.Reply(ITEMS, hollow=True)], split=split
    ),
}


@pytest.mark.parametrize("split", [0, 1, 7])
@pytest.mark.parametrize("api", NATIVE)
async def test_a_streamed_native_reply_is_the_whole_one(api: str, split: int) -> None:
    async with NATIVE[api](split) as server:
        provider = "anthropic" if api == "Messages" else "responses"
        async with open_native(provider, server.served[0], server.base_url) as model:
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


@pytest.mark.parametrize(
    "said",
    [
        "Unsupported value: 'stream' does not support true with this model. Supported values are: false.",
        "Your organization must be verified to stream this model.",
        "This model doesn't support tool use in streaming mode.",
        "[{'loc': ('body', 'stream'), 'msg': 'Extra inputs are not permitted'}]",
    ],
)
async def test_an_endpoint_that_refuses_a_stream_is_asked_for_whole_replies(said: str) -> None:
    def script(body: dict[str, Any]) -> Reply:
        return Reply(status=400, body={"error": {"message": said}}) if body.get("stream") else Reply("4")

    async with FakeOpenAIServer(script) as server:
        made = ModelConfig(name="fake", base_url=server.base_url)
        async with open_endpoints(made, [""], tool_format="native", concurrency=4) as (model,):
            for _ in range(2):
                assert (await streamed(model)).deltas == [Delta("text", "4")]
    assert ["stream" in request for request in server.requests] == [True, False, False]


async def test_a_refusal_for_another_reason_is_no_matter_of_the_stream() -> None:
    with pytest.raises(ModelError, match="no such upstream"):
        await ask(Reply(status=400, body={"error": {"message": "no such upstream"}}))


@pytest.mark.parametrize(
    "said", ["Unrecognized request argument supplied: stream_options", "include_usage: Extra inputs are not permitted"]
)
async def test_a_stream_without_usage_is_asked_for_where_its_options_are_refused(said: str) -> None:
    told, server = await ask(Reply(status=422, body={"error": {"message": said}}), Reply("4"))
    assert (told.said("text"), told.reply.usage) == ("4", Usage())
    assert [("stream_options" in each, each["stream"]) for each in server.requests] == [(True, True), (False, True)]


BEGUN = events({"content": "Half an"}, end="")
CUT = {
    "the connection is lost": Reply(pieces=[BEGUN], torn=True),
    "the stream ends": Reply(pieces=[BEGUN]),
    "an error event": Reply(pieces=[BEGUN + b'data: {"error": {"message": "died", "code": 500}}\n\ndata: [DONE]\n\n']),
    "the server gave up": Reply(pieces=[events({"content": "Half an"}, end="abort")]),
}


@pytest.mark.parametrize("cut", CUT.values(), ids=CUT)
async def test_a_stream_that_is_cut_is_taken_back_and_asked_for_again(cut: Reply) -> None:
    told, server = await ask(cut, "Whole.")
    assert told.deltas[:2] == [Delta("text", "Half an"), Delta("restart")]
    assert (told.said("text"), told.reply.retries, len(server.requests)) == ("Whole.", 1, 2)


async def test_a_failure_before_any_text_takes_nothing_back() -> None:
    told, _ = await ask(Reply(status=503), Reply(pieces=[events({"role": "assistant"}, end="")]), "4")
    assert (told.deltas, told.reply.retries) == ([Delta("text", "4")], 2)


async def test_a_stream_that_stays_cut_is_an_error() -> None:
    with pytest.raises(ModelError, match="before the reply was complete"):
        await ask(CUT["the stream ends"], max_retries=1)


async def test_a_prompt_that_is_found_too_long_in_a_stream_is_context_full() -> None:
    event = b'data: {"error": {"message": "This model\'s maximum context length is 9 tokens.", "code": 400}}\n\n'
    with pytest.raises(ContextFull):
        await ask(Reply(pieces=[event]))


async def test_a_stream_that_is_refused_after_its_beginning_is_taken_back() -> None:
    event = b'data: {"error": {"message": "no tools with streaming", "code": 400}}\n\n'
    told, _ = await ask(Reply(pieces=[BEGUN + event]), "Whole.")
    assert told.deltas == [Delta("text", "Half an"), Delta("restart"), Delta("text", "Whole.")]


@pytest.mark.parametrize("tool_format", ["native", "hermes"])
async def test_what_a_filter_withheld_is_taken_back(tool_format: str) -> None:
    event = b'data: {"error": {"message": "Provider returned content_filter", "code": 400}}\n\n'
    told, _ = await ask(Reply(pieces=[BEGUN + event]), tool_format=tool_format)
    assert (told.kinds(), told.reply.finish_reason) == (["text", "restart"], "content_filter")


async def test_an_error_event_of_the_messages_api_is_taken_back_and_asked_again() -> None:
    begun = [*messages_api.stream(messages_api.message({"model": "m"}, messages_api.Reply(BLOCKS[1:2]), 1))][:4]
    overloaded = messages_api.error("overloaded_error", "Overloaded")
    script = [messages_api.Reply(events=[*begun, overloaded]), "Whole."]
    async with FakeAnthropicServer(script) as server, open_native("anthropic", "claude-fake", server.base_url) as model:
        told = await streamed(model)
    assert "restart" in told.kinds()
    assert (told.said("text"), told.reply.retries) == ("Whole.", 1)


async def test_a_stream_may_take_longer_than_the_timeout_as_long_as_it_goes_on() -> None:
    pieces = [events({"content": "4"}, end=""), *[b": keep-alive\n\n"] * 8, events({"content": "2"})]
    told, server = await ask(Reply(pieces=pieces, pause=0.1), timeout=0.5)
    assert (told.said("text"), len(server.requests)) == ("42", 1)


@pytest.mark.parametrize("late", [Reply("late", delay=60), Reply(pieces=[BEGUN, BEGUN], pause=0.3)])
async def test_a_stream_that_stops_is_not_asked_for_again(late: Reply) -> None:
    with pytest.raises(NoReply, match=r"nothing received within 0.1 s"):
        await ask(late, timeout=0.1)


async def test_a_listener_that_fails_ends_the_request_and_leaves_the_client_usable() -> None:
    def fail(delta: Delta) -> None:
        raise LookupError(delta.text)

    async with FakeOpenAIServer(["4"]) as server:
        made = ModelConfig(name="fake", base_url=server.base_url)
        async with open_endpoints(made, [""], tool_format="native", concurrency=1) as (model,):
            assert isinstance(model, EndpointClient)
            with pytest.raises(LookupError):
                await model.stream(ASK, (), fail)
            with anyio.move_on_after(0):
                await model.stream(ASK, (), fail)
            assert (await streamed(model)).said("text") == "4"


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


async def test_another_server_tells_the_reply_again() -> None:
    cut, sound = FakeOpenAIServer([CUT["the connection is lost"]]), FakeOpenAIServer(["Whole."])
    async with cut, sound:
        made = ModelConfig(name="fake", base_url=f"{cut.base_url}, {sound.base_url}")
        async with open_endpoints(made, [""], tool_format="native", concurrency=4) as (model,):
            replies = [await streamed(model) for _ in range(8)]
    assert {told.said("text") for told in replies} == {"Whole."}
    assert any(told.kinds()[:2] == ["text", "restart"] for told in replies) == bool(cut.requests)


@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("gap", [1, 2])
def test_events_are_the_same_wherever_a_stream_is_cut(ending: bytes, gap: int) -> None:
    lines = [
        b": ping",
        b'data: {"a": "\xc3\xa9"}',
        b'data:{"b":',
        b"data: 2}",
        b"",
        b"data: junk",
        b"",
        b"data: [DONE]",
    ]
    whole = b"\xef\xbb\xbf" + (ending * gap).join(lines[:2]) + ending * 2 + ending.join(lines[2:])
    expected = [{"a": "é"}, {"b": 2}, "[DONE]"]
    assert events_of(whole) == expected
    for size in range(1, len(whole)):
        reader = EventReader()
        fed = [event for at in range(0, len(whole), size) for event in reader.feed(whole[at : at + size])]
        assert fed + reader.end() == expected


def test_an_event_is_given_as_soon_as_its_line_is_complete() -> None:
    reader = EventReader()
    assert reader.feed(b'data: {"a": 1}') == []
    assert reader.feed(b"\n") == [{"a": 1}]
