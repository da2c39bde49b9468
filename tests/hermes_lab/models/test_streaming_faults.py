"""Streams that fail: those that are refused, break off or stop, and what is told of them."""

from typing import Any

import anyio
import pytest
from fakes import anthropic_server as messages_api
from fakes.anthropic_server import FakeAnthropicServer
from fakes.openai_server import FakeOpenAIServer, Reply
from native_wires import open_native
from streams import ASK, ask, events, streamed

from hermes_lab.config.schema import ModelConfig
from hermes_lab.errors import ContextFull, ModelError
from hermes_lab.models import endpoint, fleet
from hermes_lab.models.client import EndpointClient
from hermes_lab.models.refusals import NoReply
from hermes_lab.models.remote import open_endpoints
from hermes_lab.protocols import Delta
from hermes_lab.types import Usage

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "_FIRST_WAIT", 0.001)
    monkeypatch.setattr(fleet, "backoff", lambda tried: 0.0)


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
    assert (told.said("text"), told.reply.usage) == ("4", Usage(uncounted=1))
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
    begun = [
        *messages_api.stream(
            messages_api.message({"model": "m"}, messages_api.Reply([messages_api.text("Half an answer.")]), 1)
        )
    ][:4]
    overloaded = messages_api.error("overloaded_error", "Overloaded")
    script = [messages_api.Reply(events=[*begun, overloaded]), "Whole."]
    async with FakeAnthropicServer(script) as server, open_native("anthropic", "claude-fake", server.base_url) as model:
        told = await streamed(model)
    assert "restart" in told.kinds()
    assert (told.said("text"), told.reply.retries) == ("Whole.", 1)


async def test_a_stream_may_take_longer_than_the_timeout_as_long_as_it_goes_on() -> None:
    pieces = [events({"content": "4"}, end=""), *[b": keep-alive\n\n"] * 8, events({"content": "2"})]
    told, server = await ask(Reply(pieces=pieces, pause=0.5), timeout=4)
    assert (told.said("text"), len(server.requests)) == ("42", 1)


@pytest.mark.parametrize("late", [Reply("late", delay=60), Reply(pieces=[BEGUN, BEGUN], pause=60)])
async def test_a_stream_that_stops_is_not_asked_for_again(late: Reply) -> None:
    with pytest.raises(NoReply, match=r"nothing received within 2 s"):
        await ask(late, timeout=2)


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


async def test_another_server_tells_the_reply_again() -> None:
    cut, sound = FakeOpenAIServer([CUT["the connection is lost"]]), FakeOpenAIServer(["Whole."])
    async with cut, sound:
        made = ModelConfig(name="fake", base_url=f"{cut.base_url}, {sound.base_url}")
        async with open_endpoints(made, [""], tool_format="native", concurrency=4) as (model,):
            replies = [await streamed(model) for _ in range(8)]
    assert {told.said("text") for told in replies} == {"Whole."}
    assert any(told.kinds()[:2] == ["text", "restart"] for told in replies) == bool(cut.requests)
