"""Endpoints of the program's own dialect: what they are sent, and what the program gets."""

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import anthropic
import anyio
import msgspec
import openai
import pytest
from fakes import anthropic_server, responses_server
from fakes.anthropic_server import FakeAnthropicServer
from fakes.api_server import KEY as REAL_KEY
from fakes.openai_server import FakeOpenAIServer, Reply, function_call
from fakes.processes import cancelled_once
from fakes.responses_server import FakeResponsesServer
from served import KEY, TASK, Given, said, served

from hermes_lab.config.schema import ModelConfig
from hermes_lab.errors import ModelError
from hermes_lab.models import endpoint
from hermes_lab.models.build import open_models
from hermes_lab.proxy import Proxy, upstream_for
from hermes_lab.proxy.upstream import ModelUpstream, RawUpstream
from hermes_lab.types import Message, ModelIdentity, ToolCall

PLAIN = {"temperature": None, "top_p": None}
VERSION = {"anthropic-version": "2023-06-01"}
SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}}
FUNCTION = {"type": "function", "function": {"name": "sh", "description": "d", "parameters": SCHEMA}}
TOOL = {"name": "sh", "description": "d", "input_schema": SCHEMA}
PROVIDERS = {"chat": "openai", "messages": "anthropic", "responses": "responses"}
PATHS = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}
BODIES: dict[str, dict[str, Any]] = {
    "chat": {"model": "m", "messages": [{"role": "user", "content": TASK}], "tools": [FUNCTION]},
    "messages": {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": TASK}], "tools": [TOOL]},
    "responses": {"model": "m", "input": TASK, "store": False},
}


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "backoff", lambda tried: 0.0)


@dataclass
class Served:
    """A proxy before an endpoint."""

    proxy: Proxy
    url: str

    async def ask(
        self, dialect: str, headers: dict[str, str] | None = None, **fields: Any
    ) -> tuple[int, dict[str, Any]]:
        status, content = await self.read(dialect, headers, **fields)
        return status, msgspec.json.decode(content)

    async def read(self, dialect: str, headers: dict[str, str] | None = None, **fields: Any) -> tuple[int, bytes]:
        async with (
            aiohttp.ClientSession(headers={"Authorization": f"Bearer {KEY}", **(headers or {})}) as session,
            session.post(self.url + PATHS[dialect], json=BODIES[dialect] | fields) as reply,
        ):
            return reply.status, await reply.read()


@asynccontextmanager
async def before(
    base_url: str, dialect: str = "chat", name: str = "fake", adapter: str = "", **fields: Any
) -> AsyncIterator[Served]:
    where = {"provider": PROVIDERS[dialect], "base_url": base_url, "name": name, "api_key_env": "REAL_KEY"}
    unset = PLAIN | {"max_tokens": 2000 if dialect == "messages" else None}
    config = ModelConfig.model_validate(
        {**where, "max_retries": 1, **fields, "sampling": unset | fields.get("sampling", {})}
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REAL_KEY", REAL_KEY)
        options = {"tool_format": "native", "log": Path(os.devnull), "concurrency": 4, "say": print}
        async with open_models(config, [adapter], **options) as (model,):
            upstream = upstream_for(config, model, dialect)
            assert isinstance(upstream, RawUpstream)
            async with served(upstream) as (proxy, url):
                yield Served(proxy, url)


def test_an_endpoint_of_another_dialect_is_asked_by_the_labs_own_client() -> None:
    class Other:
        identity = ModelIdentity("openai", "m")

    config = ModelConfig.model_validate({"provider": "openai", "name": "m"})
    assert isinstance(upstream_for(config, Other(), "chat"), ModelUpstream)  # type: ignore[arg-type]


# What is sent


async def test_the_body_is_the_programs_own_with_the_configured_model_and_the_real_key() -> None:
    odd = {"metadata": {"x": [1, None]}, "temperature": 0.7, "max_completion_tokens": 50, "tool_choice": "auto"}
    async with FakeOpenAIServer(["Done."]) as server, before(server.base_url) as lab:
        status, body = await lab.ask("chat", **odd)
        assert (status, body["choices"][0]["message"]["content"]) == (200, "Done.")
        assert server.requests == [BODIES["chat"] | odd | {"model": "fake"}]
        assert server.headers[0]["Authorization"] == f"Bearer {REAL_KEY}"


async def test_what_is_configured_comes_before_what_the_program_asks() -> None:
    fields = {
        "sampling": {"temperature": 0.2, "max_tokens": 77, "stop": ["END"], "seed": 3},
        "extra_body": {"logit_bias": {"1": 2}},
        "reasoning_effort": "high",
    }
    async with FakeOpenAIServer(["Done."]) as server, before(server.base_url, **fields) as lab:
        await lab.ask("chat", temperature=1.0, max_completion_tokens=50, top_p=0.5, logit_bias={})
        sent = server.requests[0]
        assert (sent["temperature"], sent["top_p"], sent["seed"], sent["stop"]) == (0.2, 0.5, 3, ["END"])
        assert (sent["max_completion_tokens"], sent["reasoning_effort"]) == (77, "high")
        assert "max_tokens" not in sent
        assert sent["logit_bias"] == {"1": 2}


async def test_headers_that_change_a_request_pass_on_and_no_others() -> None:
    async with (
        FakeAnthropicServer(["Done."]) as server,
        before(server.base_url, "messages", "claude-fake") as lab,
    ):
        headers = {**VERSION, "anthropic-beta": "b-1,b-2", "x-app": "cli", "Cookie": "c"}
        status, body = await lab.ask("messages", headers)
        assert (status, body["content"]) == (200, [{"type": "text", "text": "Done."}])
        sent = {name.lower(): value for name, value in server.headers[-1].items()}
        assert (sent["anthropic-beta"], sent["x-api-key"]) == ("b-1,b-2", REAL_KEY)
        assert "x-app" not in sent
        assert "cookie" not in sent
        assert KEY not in str(sent)
        status, body = await lab.ask("messages", headers | {"anthropic-version": "1999-01-01"})
        assert (status, body["error"]["type"]) == (400, "invalid_request_error")
    async with (
        FakeAnthropicServer(["Done."]) as server,
        before(server.base_url, "messages", "claude-fake", headers={"Anthropic-Beta": "mine"}) as lab,
    ):
        await lab.ask("messages", {"anthropic-beta": "theirs"})
        assert {n.lower(): v for n, v in server.headers[-1].items()}["anthropic-beta"] == "mine"


async def test_anthropic_takes_what_is_configured() -> None:
    """As by the lab's own client: no top_p of 1, the limit, an effort with thinking."""
    fields = {"sampling": {"top_p": 1.0, "max_tokens": 2000, "stop": ["END"]}, "reasoning_effort": "low"}
    async with (
        FakeAnthropicServer(["Done."]) as server,
        before(server.base_url, "messages", "claude-fake", **fields) as lab,
    ):
        assert (await lab.ask("messages"))[0] == 200
        sent = server.requests[-1]
        assert (sent["max_tokens"], sent["stop_sequences"]) == (2000, ["END"])
        assert (sent["output_config"], sent["thinking"]) == ({"effort": "low"}, {"type": "adaptive"})
        thinking = {"type": "enabled", "budget_tokens": 1024}
        assert (await lab.ask("messages", thinking=thinking))[0] == 200
        assert server.requests[-1]["thinking"] == thinking


async def test_responses_take_what_is_configured() -> None:
    fields = {"sampling": {"max_tokens": 200}, "reasoning_effort": "low"}
    async with (
        FakeResponsesServer(["Done."]) as server,
        before(server.base_url, "responses", "gpt-fake", **fields) as lab,
    ):
        status, body = await lab.ask("responses", reasoning={"summary": "auto"})
        assert (status, body["output"][0]["content"][0]["text"]) == (200, "Done.")
        sent = server.requests[-1]
        assert (sent["max_output_tokens"], sent["reasoning"]) == (200, {"summary": "auto", "effort": "low"})


# What is learned from refusals


async def test_a_limit_is_sent_in_the_field_that_the_endpoint_takes() -> None:
    def strict(body: dict[str, Any]) -> str | Reply:
        if "max_tokens" in body:
            said = "Unsupported parameter: 'max_tokens' is not supported; use 'max_completion_tokens' instead."
            return Reply(status=400, body={"error": {"message": said}})
        return "Done."

    async with FakeOpenAIServer(strict) as server, before(server.base_url) as lab:
        assert (await lab.ask("chat", max_tokens=50))[0] == 200
        assert (await lab.ask("chat", max_tokens=60))[0] == 200
        limits = [(r.get("max_tokens"), r.get("max_completion_tokens")) for r in server.requests]
        assert limits == [(50, None), (None, 50), (None, 60)]
        assert (lab.proxy.failure, lab.proxy.rejected) == (None, 0)
    async with (
        FakeOpenAIServer(["Done."]) as server,
        before(server.base_url, limit_field="max_tokens") as lab,
    ):
        await lab.ask("chat", max_completion_tokens=60)
        assert (server.requests[0]["max_tokens"], "max_completion_tokens" in server.requests[0]) == (60, False)


async def test_fields_that_the_endpoint_does_not_take_back_are_left_out() -> None:
    def strict(body: dict[str, Any]) -> str | Reply:
        if any("reasoning_content" in message for message in body["messages"]):
            said = "messages.1.reasoning_content: Extra inputs are not permitted"
            return Reply(status=422, body={"detail": said})
        return "Done."

    call = function_call("c", "sh", {"command": "ls"})
    asked = [
        *BODIES["chat"]["messages"],
        {"role": "assistant", "content": None, "reasoning_content": "hm", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "a"},
        {"role": "assistant", "content": "x", "tool_calls": None},
        {"role": "user", "content": "go on"},
    ]
    async with FakeOpenAIServer(strict) as server, before(server.base_url) as lab:
        assert (await lab.ask("chat", messages=asked))[0] == 200
        assert server.requests[-1]["messages"][1] == {"role": "assistant", "content": None, "tool_calls": [call]}
        assert lab.proxy.rejected == 0


def completion(**message: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}
    return {"id": "x", "object": "chat.completion", "choices": [choice], "usage": {"prompt_tokens": 5}}


def chunks(*choices: dict[str, Any], usage: bool = True) -> bytes:
    events: list[dict[str, Any]] = [{"id": "x", "choices": [choice]} for choice in choices]
    if usage:
        events.append({"id": "x", "choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}})
    return b"".join(b"data: " + msgspec.json.encode(event) + b"\n\n" for event in events) + b"data: [DONE]\n\n"


SAID = {"index": 0, "delta": {"role": "assistant", "content": "Done."}, "finish_reason": None}
ENDED = {"index": 0, "delta": {}, "finish_reason": "stop"}


async def test_an_endpoint_that_only_streams_answers_programs_that_do_not() -> None:
    def only_streams(body: dict[str, Any]) -> Reply:
        if not body.get("stream"):
            return Reply(status=400, body={"error": {"message": "This model only supports stream mode"}})
        return Reply(pieces=[chunks(SAID, ENDED)])

    async with FakeOpenAIServer(only_streams) as server, before(server.base_url) as lab:
        status, body = await lab.ask("chat")
        assert (status, body["choices"][0]["message"]["content"]) == (200, "Done.")
        assert body["usage"]["completion_tokens"] == 2


async def test_an_endpoint_that_never_streams_answers_programs_that_do() -> None:
    async with FakeOpenAIServer(["Done."], streams=False) as server, before(server.base_url) as lab:
        status, content = await lab.read("chat", stream=True)
        assert status == 200
        assert content.startswith(b"data: ")
        assert b"Done." in content
        assert content.endswith(b"data: [DONE]\n\n")


# What the program gets


@pytest.mark.parametrize("asks", [False, True])
async def test_usage_is_counted_but_told_only_where_it_is_asked(asks: bool) -> None:
    sent = chunks(SAID, ENDED)
    async with FakeOpenAIServer([Reply(pieces=[sent])]) as server, before(server.base_url) as lab:
        more = {"stream_options": {"include_usage": True}} if asks else {}
        _, content = await lab.read("chat", stream=True, **more)
        assert content == (sent if asks else chunks(SAID, ENDED, usage=False))
        assert server.requests[0]["stream_options"] == {"include_usage": True}
        assert lab.proxy.conversations().main.usage.completion_tokens == 2


async def test_bytes_pass_as_they_are() -> None:
    odd = completion(content="Done.", reasoning="hm", audio=None) | {"system_fingerprint": "fp", "x": [1]}
    async with FakeOpenAIServer([Reply(body=odd)]) as server, before(server.base_url) as lab:
        assert (await lab.ask("chat"))[1] == odd


async def test_a_call_that_is_written_as_text_runs_as_in_the_own_loop() -> None:
    written = '{"name": "sh", "arguments": {"command": "ls"}}'
    async with FakeOpenAIServer([Reply(body=completion(content=written))]) as server, before(server.base_url) as lab:
        message = (await lab.ask("chat"))[1]["choices"][0]["message"]
        assert message["tool_calls"][0]["function"] == {"name": "sh", "arguments": '{"command":"ls"}'}
        asked = [*BODIES["chat"]["messages"], message]
        asked.append({"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "a"})
        await lab.ask("chat", messages=asked)
        assert [step.message for step in lab.proxy.conversations().main.steps] == [1, 3]


async def test_signed_thoughts_come_through_both_ways() -> None:
    blocks = [anthropic_server.thinking("hm"), anthropic_server.tool_use("toolu_1", "sh", {"command": "ls"})]
    async with (
        FakeAnthropicServer([anthropic_server.Reply(blocks), "Done."], split=11) as server,
        before(server.base_url, "messages", "claude-fake") as lab,
        anthropic.AsyncAnthropic(base_url=lab.url, api_key=KEY, max_retries=0, default_headers=VERSION) as client,
    ):
        asked: dict[str, Any] = BODIES["messages"] | {"thinking": {"type": "enabled", "budget_tokens": 1024}}
        async with client.messages.stream(**asked) as stream:
            reply = await stream.get_final_message()
        result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "a"}
        asked["messages"] = [
            *asked["messages"],
            {"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in reply.content]},
            {"role": "user", "content": [result]},
        ]
        final = await client.messages.create(**asked)
        assert final.content[0].text == "Done."
        assert server.refusals == []
        main = lab.proxy.conversations().main
        assert [message.role for message in main.messages] == ["user", "assistant", "tool", "assistant"]
        assert main.messages[1].reasoning == "hm"


async def test_encrypted_reasoning_comes_through_both_ways() -> None:
    items = [responses_server.reasoning("hm"), responses_server.function_call("call_1", "sh", {"command": "ls"})]
    tools = [{"type": "function", "strict": False, **FUNCTION["function"]}]  # type: ignore[dict-item]
    async with (
        FakeResponsesServer([responses_server.Reply(items), "Done."]) as server,
        before(server.base_url, "responses", "gpt-fake") as lab,
        openai.AsyncOpenAI(base_url=f"{lab.url}/v1", api_key=KEY, max_retries=0) as client,
    ):
        asked: dict[str, Any] = {"model": "m", "store": False, "include": ["reasoning.encrypted_content"]}
        given: list[Any] = [{"role": "user", "content": TASK}]
        async with client.responses.stream(**asked, input=given, tools=tools) as stream:
            reply = await stream.get_final_response()
        given += [item.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for item in reply.output]
        given.append({"type": "function_call_output", "call_id": "call_1", "output": "a"})
        final = await client.responses.create(**asked, input=given, tools=tools)
        assert final.output_text == "Done."
        assert server.refusals == []
        assert len(lab.proxy.conversations().main.steps) == 2


@pytest.mark.parametrize("stream", [False, True])
async def test_token_ids_are_read_though_the_program_does_not_ask(stream: bool) -> None:
    whole = {"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop", "token_ids": [7, 0]}
    whole["logprobs"] = {"content": [{"token": "a", "logprob": -0.25}, {"token": "b", "logprob": -0.5}]}
    streamed = {"id": "x", "choices": [whole], "prompt_token_ids": [1, 2], "usage": {"completion_tokens": 2}}
    sent = b"data: " + msgspec.json.encode(streamed) + b"\n\ndata: [DONE]\n\n"
    script = [Reply(pieces=[sent]) if stream else Reply("Hi")]
    async with FakeOpenAIServer(script) as server, before(server.base_url, token_ids=True) as lab:
        assert (await lab.read("chat", stream=stream))[0] == 200
        assert (server.requests[0]["logprobs"], server.requests[0]["return_token_ids"]) == (True, True)
        (branch,) = lab.proxy.conversations().main.trajectory("answered").branches
        assert sum(branch.mask) == (2 if stream else 3)


async def test_a_reply_by_other_weights_is_a_failure() -> None:
    async with FakeOpenAIServer(["Done."]) as server:
        server.answers_as = "base"
        server.adapters["tuned"] = "/x"
        async with before(server.base_url, adapter="tuned") as lab:
            assert (await lab.ask("chat"))[0] == 502
            assert "adapter tuned, but base answered" in str(lab.proxy.failure)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_filtered_prompt_is_an_outcome(stream: bool) -> None:
    refused = Reply(status=400, body={"error": {"message": "caught", "code": "content_filter"}})
    async with FakeOpenAIServer([refused]) as server, before(server.base_url) as lab:
        status, content = await lab.read("chat", stream=stream)
        assert status == 200
        assert b'"content_filter"' in content
        assert (lab.proxy.failure, lab.proxy.conversations().main.stop) == (None, "filtered")


OVERFLOWS = {
    "chat": Reply(status=400, body={"error": {"message": "maximum context length is 10", "code": None}}),
    "messages": anthropic_server.Reply(
        status=400, body=anthropic_server.error("invalid_request_error", "prompt is too long: 9 tokens > 8 maximum")
    ),
    "responses": responses_server.Reply(
        http=400,
        body={"error": {"message": "Your input exceeds the context window", "code": "context_length_exceeded"}},
    ),
}


def fake(dialect: str, script: Sequence[Any]) -> Any:
    kinds = {"chat": FakeOpenAIServer, "messages": FakeAnthropicServer, "responses": FakeResponsesServer}
    return kinds[dialect](script)


NAMES = {"chat": "fake", "messages": "claude-fake", "responses": "gpt-fake"}


@pytest.mark.parametrize("dialect", PATHS)
async def test_a_prompt_that_is_too_long_is_told_in_the_dialect(dialect: str) -> None:
    async with (
        fake(dialect, [OVERFLOWS[dialect]]) as server,
        before(server.base_url, dialect, NAMES[dialect]) as lab,
    ):
        status, body = await lab.ask(dialect)
        assert status == 400
        told = body["error"]["message"]
        assert told.startswith("prompt is too long" if dialect == "messages" else "This model's maximum context length")
        assert (lab.proxy.refused, lab.proxy.failure, lab.proxy.rejected) == (1, None, 0)


# What a program's own request is refused for


@pytest.mark.parametrize(("dialect", "field"), [("messages", "context_hint"), ("responses", "client_metadata")])
async def test_a_refusal_of_the_programs_own_parameter_is_passed_on(dialect: str, field: str) -> None:
    """The program tries a parameter, is refused, drops it, and works on."""
    async with (
        fake(dialect, ["Done."]) as server,
        before(server.base_url, dialect, NAMES[dialect]) as lab,
    ):
        status, body = await lab.ask(dialect, **{field: {}})
        assert status == 400
        expected = {
            "messages": f"{field}: Extra inputs are not permitted",
            "responses": f"Unknown parameter: '{field}'.",
        }
        assert body["error"]["message"] == expected[dialect]
        assert body["error"]["type"] == "invalid_request_error"
        assert (await lab.ask(dialect))[0] == 200
        assert (lab.proxy.rejected, lab.proxy.failure, lab.proxy.refused) == (1, None, 0)
        assert [bool(exchange.error) for exchange in lab.proxy.exchanges] == [True, False]
        assert len(lab.proxy.conversations().main.steps) == 1


@pytest.mark.parametrize("status", [400, 413, 415, 422])
async def test_a_refusal_is_passed_on_with_its_status_and_body(status: int) -> None:
    refused = {"error": {"message": f"Unsupported value: 'verbosity' ({REAL_KEY})", "param": "verbosity"}, "more": 1}
    script = [Reply(status=status, body=refused), "Done."]
    async with FakeOpenAIServer(script) as server, before(server.base_url) as lab:
        got, body = await lab.ask("chat", verbosity="low")
        refused["error"]["message"] = "Unsupported value: 'verbosity' (***)"  # type: ignore[index]
        assert (got, body) == (status, refused)
        assert (await lab.ask("chat"))[0] == 200


async def test_a_refusal_that_is_no_json_is_told_in_the_dialect() -> None:
    async with FakeOpenAIServer([Reply(status=400, body="bad verbosity")]) as server, before(server.base_url) as lab:
        status, body = await lab.ask("chat", stream=True)
        assert (status, body["error"]["type"]) == (400, "invalid_request_error")
        assert "HTTP 400: bad verbosity" in body["error"]["message"]


@pytest.mark.parametrize(
    ("status", "message", "fields", "says"),
    [
        (401, "who?", {}, "HTTP 401: who"),
        (402, "pay", {}, "HTTP 402: pay"),
        (403, "no", {}, "HTTP 403: no"),
        (404, "no such model", {}, "HTTP 404: no such model"),
        (409, "conflict", {}, "HTTP 409"),
        (429, "slow down", {}, "HTTP 429: slow down"),
        (500, "oh", {}, "HTTP 500: oh"),
        (400, "Your credit balance is too low", {}, "credit balance"),
        (400, "API key not valid", {}, "API key not valid"),
        (
            400,
            "Unsupported value: 'temperature' does not support 0.2",
            {"sampling": {"temperature": 0.2}},
            "set model.sampling.temperature=null to omit it",
        ),
        (
            400,
            "unknown field: guided",
            {"extra_body": {"guided": True}},
            "guided comes from model.extra_body: remove it there",
        ),
        (400, '"auto" tool choice requires --enable-auto-tool-choice', {}, "start the server with them"),
    ],
)
async def test_what_no_program_can_mend_is_a_failure(
    status: int, message: str, fields: dict[str, Any], says: str
) -> None:
    reply = Reply(status=status, body={"error": {"message": message}})
    async with FakeOpenAIServer([reply]) as server, before(server.base_url, **fields) as lab:
        assert (await lab.ask("chat"))[0] == 502
        assert says in str(lab.proxy.failure)
        assert lab.proxy.rejected == 0


async def test_the_programs_own_temperature_is_its_own_fault() -> None:
    reply = Reply(status=400, body={"error": {"message": "Unsupported value: 'temperature' does not support 0.2"}})
    async with FakeOpenAIServer([reply]) as server, before(server.base_url) as lab:
        assert (await lab.ask("chat", temperature=0.2))[0] == 400
        assert (lab.proxy.failure, lab.proxy.rejected) == (None, 1)


# Endpoints that fail

FAULTS = {
    "500": Reply(status=500, body={"error": {"message": "oh"}}),
    "429": Reply(status=429, body="busy"),
    "empty": Reply(body=b""),
    "HTML": Reply(body=b"<html>gateway</html>"),
    "cut stream": Reply(pieces=[chunks(SAID)[:60]], torn=True),
    "a stream without its end": Reply(pieces=[b"data: " + msgspec.json.encode({"choices": [SAID]}) + b"\n\n"]),
    "timeout": Reply("late", delay=30),
    "wrong JSON": Reply(body={"choices": "x"}),
    "no JSON": Reply(body=b'{"choices": ['),
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("fault", [*FAULTS, "refused connection"])
async def test_an_endpoint_that_fails_is_a_failure_and_no_reply(fault: str, stream: bool) -> None:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(FakeOpenAIServer([FAULTS.get(fault, "x")]))
        async with before(server.base_url, timeout=2 if fault == "timeout" else 60) as lab:
            if fault == "refused connection":
                await stack.aclose()
            status, content = await lab.read("chat", stream=stream)
            assert status == 502
            assert b"error" in content
            assert isinstance(lab.proxy.failure, ModelError)
            with anyio.fail_after(60):
                await lab.proxy.interrupted()
            assert lab.proxy.conversations().main.steps == []
            assert [exchange.generation for exchange in lab.proxy.exchanges] == [None]
            tried = len(server.requests)
            assert (await lab.read("chat"))[0] == 502  # and nothing is asked any more
            assert len(server.requests) == tried


async def test_a_program_that_gave_up_waiting_may_ask_again() -> None:
    """A slow reply is not counted twice, and is no failure."""
    async with FakeOpenAIServer([Reply("late", delay=0.5), "Done."]) as server, before(server.base_url) as lab:
        await cancelled_once(lambda: bool(server.requests), lambda: lab.ask("chat"))
        assert (await lab.ask("chat"))[0] == 200
        main = lab.proxy.conversations().main
        assert (len(main.steps), main.stop, lab.proxy.failure) == (1, "answered", None)


# Replies of other models


async def test_what_a_program_does_not_send_back_is_put_back() -> None:
    """A reply's reasoning and stored fields go to the model again, though the program has no place for them."""

    class Thinks:
        identity = ModelIdentity("openai", "m")

        def __init__(self) -> None:
            self.asked: list[Sequence[Message]] = []

        async def generate(self, messages: Sequence[Message], tools: object) -> Any:
            self.asked.append(messages)
            reply = said("", ToolCall("c", "sh", {"command": "ls"}))
            return msgspec.structs.replace(
                reply, message=msgspec.structs.replace(reply.message, reasoning="hm", provider_fields={"x": 1})
            )

    model = Thinks()
    async with served(ModelUpstream(model)) as (proxy, url):  # type: ignore[arg-type]
        lab = Served(proxy, url)
        asked = list(BODIES["messages"]["messages"])
        for _ in range(3):
            content = (await lab.ask("messages", messages=asked))[1]["content"]
            result = {"type": "tool_result", "tool_use_id": content[0]["id"], "content": "a"}
            asked += [{"role": "assistant", "content": content}, {"role": "user", "content": [result]}]
        replies = [message for message in model.asked[-1] if message.role == "assistant"]
        assert [message.provider_fields for message in replies] == [{"x": 1}] * 2
        assert len({call.id for message in replies for call in message.tool_calls}) == 2
        assert len(proxy.conversations().main.steps) == 3


async def test_a_failing_upstream_of_any_kind_has_no_reply() -> None:
    async with served(Given([ModelError("down")])) as (proxy, url):
        assert (await Served(proxy, url).ask("responses", stream=True))[0] == 502
        assert str(proxy.failure) == "down"
