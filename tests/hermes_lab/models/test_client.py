"""The client against a fake server: what it sends, what it reads, what it tries again."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email.utils import formatdate
from typing import Any

import anyio
import pytest
from fakes.openai_server import LOGPROB, FakeOpenAIServer, Reply, function_call, render

from hermes_lab.config.schema import ModelConfig
from hermes_lab.errors import ConfigError, ContextFull, ModelError
from hermes_lab.models import endpoint, waits
from hermes_lab.models.client import EndpointClient
from hermes_lab.models.refusals import Refused
from hermes_lab.models.remote import open_endpoints
from hermes_lab.types import Generation, Message, ToolCall, ToolResult
from hermes_lab.types.trajectory import ToolFormat

ASK = [Message("system", "Be brief."), Message("user", "Go.")]
TOOL = {"type": "function", "function": {"name": "terminal", "parameters": {"type": "object"}}}


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "_FIRST_WAIT", 0.001)


@asynccontextmanager
async def client_of(
    server: FakeOpenAIServer, tool_format: ToolFormat = "native", concurrency: int = 4, **config: Any
) -> AsyncIterator[EndpointClient]:
    made = ModelConfig(name="fake", base_url=server.base_url, **config)
    async with open_endpoints(made, [made.adapter], tool_format=tool_format, concurrency=concurrency) as (client,):
        yield client


@pytest.mark.anyio
async def test_native_calls_and_answers_are_structured_on_the_wire() -> None:
    results = [ToolResult("a", "terminal", '{"x": 1}'), ToolResult("b", "terminal", "{}")]
    talk = [
        *ASK,
        Message("assistant", "Well.", (ToolCall("a", "terminal", {"c": "é"}), ToolCall("b", "terminal"))),
        *(Message("tool", r.content, results=(r,), tool_call_id=r.call_id) for r in results),
    ]
    async with FakeOpenAIServer(["done"]) as server, client_of(server) as client:
        reply = await client.generate(talk, [TOOL])
    assert reply.message == Message("assistant", "done")
    (sent,) = server.requests
    assert sent["tools"] == [TOOL]
    assert sent["messages"][2]["content"] == "Well."
    assert [json.loads(c["function"]["arguments"]) for c in sent["messages"][2]["tool_calls"]] == [
        {"c": "é"},
        {},
    ]
    assert sent["messages"][3:] == [
        {"role": "tool", "tool_call_id": "a", "content": '{"x": 1}'},
        {"role": "tool", "tool_call_id": "b", "content": "{}"},
    ]


@pytest.mark.anyio
async def test_the_hermes_format_sends_and_keeps_text_alone() -> None:
    text = '<tool_call>\n{"name": "terminal", "arguments": {}}\n</tool_call>'
    talk = [
        *ASK,
        Message("assistant", text, (ToolCall("call_0", "terminal"),)),
        Message("user", "<r>", results=()),
    ]
    async with FakeOpenAIServer([text]) as server, client_of(server, "hermes") as client:
        reply = await client.generate(talk, ())
    assert reply.message == Message("assistant", text)
    assert server.requests[0]["messages"] == [{"role": m.role, "content": m.content} for m in talk]
    assert "tools" not in server.requests[0]


@pytest.mark.anyio
async def test_sampling_options_reach_the_server() -> None:
    sampling = {"temperature": 0.7, "top_p": 0.9, "max_tokens": 33}
    async with FakeOpenAIServer(["x"]) as server, client_of(server, sampling=sampling) as client:
        await client.generate(ASK, ())
    assert sampling.items() <= server.requests[0].items()
    assert server.requests[0]["model"] == "fake"


@pytest.mark.anyio
async def test_native_calls_are_read_with_ids_of_their_own() -> None:
    calls = [
        function_call("same", "a", {"x": 1}),
        function_call("same", "b", '{"x": '),
        function_call(None, None, {}),
        function_call("d", "d", '"[1]"'),
    ]
    before = [
        *ASK,
        Message("assistant", "", (ToolCall("same", "z"),)),
        Message("tool", "{}", tool_call_id="same"),
    ]
    async with FakeOpenAIServer([Reply(tool_calls=calls)]) as server, client_of(server) as client:
        reply = await client.generate(before, [TOOL])
    a, b, c, d = reply.message.tool_calls
    assert len({"same", a.id, b.id, c.id, d.id}) == 5
    assert (a.name, a.arguments, a.error) == ("a", {"x": 1}, "")
    assert (b.name, b.raw) == ("b", '{"x": ')
    assert "not JSON" in b.error
    assert "does not name a tool" in c.error
    assert "must be a JSON object" in d.error
    assert reply.finish_reason == "tool_calls"


@pytest.mark.anyio
async def test_a_broken_call_goes_back_as_a_call_without_arguments() -> None:
    broken = ToolCall("1", "terminal", error="not JSON", raw="{oops")
    async with FakeOpenAIServer(["x"]) as server, client_of(server) as client:
        await client.generate([*ASK, Message("assistant", "", (broken,))], [TOOL])
    assert server.requests[0]["messages"][2]["tool_calls"] == [function_call("1", "terminal", {})]


@pytest.mark.anyio
@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
async def test_reasoning_is_kept_beside_the_content(field: str) -> None:
    async with FakeOpenAIServer([Reply("yes", message={field: "hm"})]) as server, client_of(server) as client:
        reply = await client.generate(ASK, ())
    assert (reply.message.content, reply.message.reasoning) == ("yes", "hm")


@pytest.mark.anyio
async def test_token_ids_and_logprobs_are_the_servers() -> None:
    async with FakeOpenAIServer(["hé"]) as server, client_of(server, token_ids=True) as client:
        reply = await client.generate(ASK, ())
    assert bytes(reply.prompt_token_ids).decode() == render(server.requests[0]["messages"])
    assert bytes(reply.token_ids) == "hé\0".encode()
    assert reply.logprobs == (LOGPROB,) * 4
    assert reply.usage.completion_tokens == 4


def _completion(**choice: Any) -> Reply:
    choice = {"message": {"content": "x"}, "finish_reason": "stop", **choice}
    usage = {"prompt_tokens": 1, "completion_tokens": 1}
    return Reply(body={"choices": [choice], "usage": usage, "prompt_token_ids": [1]})


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (_completion(), "returns no token ids"),
        (_completion(token_ids=[1, 2], logprobs={"content": [{"logprob": -1.0}]}), "2 token ids and 1 log-prob"),
        (
            _completion(token_ids=[1, 2], logprobs={"content": [{"logprob": -1.0}] * 2}),
            "2 log-prob.* for 1 tokens",
        ),
        (_completion(token_ids=["a"], logprobs={"content": [{"logprob": -1.0}]}), "returns no token ids"),
        (_completion(token_ids=[1], logprobs={"content": [{"logprob": "low"}]}), "not a number"),
        (Reply(body="<html>"), "an HTML page"),
    ],
)
async def test_a_reply_that_does_not_add_up_is_a_model_error(reply: Reply, reason: str) -> None:
    async with FakeOpenAIServer([reply]) as server, client_of(server, token_ids=True) as client:
        with pytest.raises(ModelError, match=reason):
            await client.generate(ASK, ())
    assert len(server.requests) == 1


@pytest.mark.anyio
@pytest.mark.parametrize(
    "failure", [Reply(status=s, body="busy") for s in (408, 429, 500, 503)] + [Reply(hang_up=True)]
)
async def test_a_passing_failure_is_tried_again(failure: Reply) -> None:
    async with FakeOpenAIServer([failure, failure, "at last"]) as server, client_of(server) as client:
        reply = await client.generate(ASK, ())
    assert reply.message.content == "at last"
    assert len(server.requests) == 3


@pytest.mark.anyio
async def test_tries_end_at_max_retries() -> None:
    async with (
        FakeOpenAIServer([Reply(status=503, body="busy")]) as server,
        client_of(server, max_retries=2) as client,
    ):
        with pytest.raises(ModelError, match="HTTP 503: busy"):
            await client.generate(ASK, ())
    assert len(server.requests) == 3


@pytest.mark.anyio
async def test_retry_after_decides_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "_FIRST_WAIT", 3600.0)
    monkeypatch.setattr(endpoint, "_LONGEST_WAIT", 3600.0)
    busy = Reply(status=429, body="busy", headers={"Retry-After": "0"})
    async with FakeOpenAIServer([busy, "at last"]) as server, client_of(server) as client:
        with anyio.fail_after(60):
            reply = await client.generate(ASK, ())
    assert reply.message.content == "at last"


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits, which take no time."""
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(endpoint, "_FIRST_WAIT", 0.5)
    monkeypatch.setattr(endpoint.anyio, "sleep", sleep)
    return waits


GEMINI = [
    {
        "error": {
            "code": 429,
            "message": "You exceeded your current quota. Please retry in 34.9s.",
            "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34s"}],
        }
    }
]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("busy", "wait"),
    [
        (Reply(status=429, body="busy", headers={"Retry-After": "7"}), 7.0),
        (Reply(status=429, body="busy", headers={"retry-after-ms": "1500", "Retry-After": "7"}), 1.5),
        (Reply(status=429, body=GEMINI), 34.9),
        (Reply(status=429, body={"error": {"message": "Limit 3. Please try again in 20s."}}), 20.0),
        (Reply(body={"error": {"message": "Please try again in 20s.", "code": 429}}), 20.0),
        (Reply(status=429, body="busy", headers={"x-ratelimit-reset-requests": "2m59.5s"}), 60.0),
        (
            Reply(
                status=429,
                body="busy",
                headers={
                    **{"x-ratelimit-remaining-requests": "99", "x-ratelimit-reset-requests": "23h"},
                    **{"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "12s"},
                },
            ),
            12.0,
        ),
    ],
)
async def test_the_wait_that_a_server_states_is_kept(busy: Reply, wait: float, slept: list[float]) -> None:
    async with FakeOpenAIServer([busy, "at last"]) as server, client_of(server) as client:
        assert (await client.generate(ASK, ())).retries == 1
    (waited,) = slept
    assert wait <= waited <= wait * 1.1


@pytest.mark.anyio
@pytest.mark.parametrize("busy", [Reply(status=429, body="busy"), Reply(body={"error": {"code": 429, "message": "b"}})])
async def test_a_rate_limit_that_states_no_wait_is_outlasted(busy: Reply, slept: list[float]) -> None:
    async with FakeOpenAIServer([busy]) as server, client_of(server) as client:
        with pytest.raises(ModelError, match="b"):
            await client.generate(ASK, ())
    assert len(slept) == 4
    assert 60 < sum(slept) <= 240
    assert max(slept) <= 60


@pytest.mark.anyio
@pytest.mark.parametrize(
    "busy",
    [
        Reply(status=429, body="busy", headers={"Retry-After": "3600"}),
        Reply(status=429, body={"error": {"message": "Please try again in 1h0m0s."}}),
    ],
)
async def test_a_wait_that_is_too_long_is_told_at_once(busy: Reply, slept: list[float]) -> None:
    async with FakeOpenAIServer([busy]) as server, client_of(server) as client:
        with pytest.raises(ModelError, match=r"HTTP 429: .*asks to wait 3600 s, more than the limit of 60 s"):
            await client.generate(ASK, ())
    assert (len(server.requests), slept) == (1, [])


@pytest.mark.anyio
async def test_an_account_without_credit_is_not_asked_again() -> None:
    poor = Reply(status=429, body={"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}})
    async with FakeOpenAIServer([poor]) as server, client_of(server) as client:
        with pytest.raises(ModelError, match="insufficient_quota"):
            await client.generate(ASK, ())
    assert len(server.requests) == 1


def test_retry_after_is_seconds_or_a_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waits.time, "time", lambda: 1e9)
    assert waits.retry_after("7") == 7
    assert waits.retry_after(formatdate(1e9 + 8)) == 8


@pytest.mark.parametrize("header", ["", "soon", "nan", "inf", "-3", formatdate(0)])
def test_a_useless_retry_after_is_ignored(header: str) -> None:
    assert waits.retry_after(header) is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("34s", 34),
        ("6m0s", 360),
        ("120ms", 0.12),
        ("1h2m3s", 3723),
        ("1.5 seconds", 1.5),
        ("2 minutes", 120),
        ("soon", None),
    ],
)
def test_durations_are_read(text: str, seconds: float | None) -> None:
    assert waits.duration(text) == seconds


def test_a_reset_may_be_a_unix_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waits.time, "time", lambda: 1.7e9)
    for value in ("1700000030", "1700000030000"):
        assert waits.reset_wait({"x-ratelimit-reset": value}) == 30


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, {"error": {"message": "This model's maximum context length is 4096 tokens. However, ..."}}),
        (400, {"error": {"message": "no", "code": "context_length_exceeded"}}),
        (400, {"error": {"message": "the request exceeds the available context size"}}),
        (413, {"error": "prompt is too long: 9 tokens > 8"}),
    ],
)
async def test_a_prompt_that_does_not_fit_is_context_full(status: int, body: dict[str, Any]) -> None:
    async with FakeOpenAIServer([Reply(status=status, body=body)]) as server, client_of(server) as client:
        with pytest.raises(ContextFull):
            await client.generate(ASK, ())
    assert len(server.requests) == 1


@pytest.mark.anyio
@pytest.mark.parametrize(
    "slow",
    [
        Reply(status=500, body={"error": {"message": "context deadline exceeded"}}),
        Reply(status=503, body={"error": {"message": "The model is overloaded; keep the same context"}}),
        Reply(body={"error": {"message": "Upstream request took too long", "code": 504}}),
        Reply(body={"error": {"message": "the input tokens exceed what can be handled now", "code": 502}}),
    ],
)
async def test_a_server_that_is_too_slow_is_asked_again(slow: Reply) -> None:
    async with FakeOpenAIServer([slow, "at last"]) as server, client_of(server) as client:
        reply = await client.generate(ASK, ())
    assert (reply.message.content, reply.retries) == ("at last", 1)


@pytest.mark.anyio
async def test_any_other_refusal_is_told_on_one_line_and_not_tried_again() -> None:
    refusal = Reply(status=400, body={"error": {"message": "no such\n\nthing"}})
    async with FakeOpenAIServer([refusal]) as server, client_of(server) as client:
        with pytest.raises(ModelError, match=r"HTTP 400: no such thing$"):
            await client.generate(ASK, ())
    assert len(server.requests) == 1


@pytest.mark.anyio
async def test_a_reply_that_takes_too_long_is_not_asked_for_again() -> None:
    async with (
        FakeOpenAIServer([Reply("late", delay=60)]) as server,
        client_of(server, timeout=2) as client,
    ):
        with pytest.raises(ModelError, match=r"no reply within 2 s"):
            await client.generate(ASK, ())
    assert len(server.requests) == 1


@pytest.mark.anyio
async def test_the_key_is_sent_and_never_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "s3cret\n")
    refusal = Reply(status=400, body="bad key s3cret")
    async with FakeOpenAIServer([refusal]) as server, client_of(server, api_key_env="SOME_KEY") as client:
        with pytest.raises(ModelError, match=r"bad key \*\*\*$"):
            await client.generate(ASK, ())
        assert "s3cret" not in repr(client.identity)
    assert server.headers[-1]["Authorization"] == "Bearer s3cret"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("told", "kind"),
    [
        (Reply(body={"error": {"code": 401, "message": "Incorrect API key provided: s3cret-key."}}), Refused),
        (Reply(body="<html>s3cret-key"), ModelError),
        (Reply(body={"error": {"code": 400, "message": "s3cret-key: prompt is too long: 9 tokens > 8"}}), ContextFull),
        (Reply(body={"choices": [{"message": {"content": "x"}, "finish_reason": "s3cret-key"}]}), ModelError),
        (Reply(status=400, body="x" * 495 + "s3cret-key"), Refused),
    ],
)
async def test_the_key_is_not_told_in_any_kind_of_error(
    told: Reply, kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_KEY", "s3cret-key")
    async with FakeOpenAIServer([told]) as server, client_of(server, api_key_env="SOME_KEY") as client:
        with pytest.raises(kind, match=r"\*\*\*") as raised:
            await client.generate(ASK, ())
    assert "s3cre" not in str(raised.value)
    assert type(raised.value) is kind
    assert getattr(raised.value, "status", 401) in (400, 401)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("said", "ending"),
    [
        ("Output blocked by content filtering policy", "content_filter"),
        (
            "Invalid prompt: your prompt was flagged as potentially violating our usage policy. Please try again with "
            "a different prompt (invalid_prompt)",
            "content_filter",
        ),
        (
            "Could not finish the message because max_tokens or model output limit was reached. "
            "Please try again with higher max_tokens.",
            "length",
        ),
    ],
)
async def test_a_refusal_that_is_an_outcome_is_a_reply(said: str, ending: str) -> None:
    refusal = Reply(status=400, body={"error": {"message": said, "type": "invalid_request_error"}})
    async with FakeOpenAIServer([refusal]) as server, client_of(server) as client:
        assert await client.generate(ASK, ()) == Generation(Message("assistant"), ending)
        forwarded = await client.forward({"model": "fake", "messages": []}, ASK, (), configured=(), headers={})
    assert forwarded == (Generation(Message("assistant"), ending), b"")
    assert len(server.requests) == 2


@pytest.mark.anyio
async def test_no_more_requests_at_once_than_asked_for() -> None:
    async with (
        FakeOpenAIServer([Reply("x", delay=0.02)]) as server,
        client_of(server, concurrency=3) as client,
        anyio.create_task_group() as tasks,
    ):
        for _ in range(9):
            tasks.start_soon(client.generate, ASK, ())
    assert server.most_at_once == 3


@pytest.mark.anyio
async def test_calls_that_a_server_leaves_in_the_text_are_read_by_the_familys_parser() -> None:
    text = 'Look.\n<tool_call>\n{"name": "terminal", "arguments": {"command": "ls"}}\n</tool_call>'
    async with FakeOpenAIServer([text]) as server, client_of(server, tool_parser="qwen") as client:
        first = await client.generate(ASK, [TOOL])
        again = await client.generate([*ASK, first.message], [TOOL])
        bare = await client.generate(ASK, ())
    assert (first.message.content, first.message.tool_calls[0].arguments) == ("Look.", {"command": "ls"})
    assert again.message.tool_calls[0].id != first.message.tool_calls[0].id
    assert bare.message.content == text, "without tools there are no calls"
    assert [request.get("tool_choice") for request in server.requests] == ["none", "none", None]


OFFERED = '```json\n{"name": "terminal", "arguments": {"command": "ls"}}\n```'
UNKNOWN = '```json\n{"name": "list files", "arguments": {"command": "ls"}}\n```'


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("text", "content", "names"),
    [
        (OFFERED, "", ["terminal"]),
        (f"I look.\n{OFFERED}", "I look.", ["terminal"]),
        (f"<think>Look?</think>\n{OFFERED}", "", ["terminal"]),
        (UNKNOWN, "", ["list files"]),
        (f"I look.\n{UNKNOWN}", f"I look.\n{UNKNOWN}", []),
        (f"{OFFERED}\nThat is it.", f"{OFFERED}\nThat is it.", []),
        (f"{OFFERED}\nor\n{UNKNOWN}", f"{OFFERED}\nor\n{UNKNOWN}", []),
        ('{"name": "Ann", "age": 3}', '{"name": "Ann", "age": 3}', []),
    ],
)
async def test_a_call_that_the_model_wrote_as_bare_json_is_read_and_goes_back_as_a_call(
    text: str, content: str, names: list[str]
) -> None:
    async with FakeOpenAIServer([text]) as server, client_of(server) as client:
        reply = await client.generate(ASK, [TOOL])
        await client.generate([*ASK, reply.message], [TOOL])
        bare = await client.generate(ASK, ())
    assert reply.message.content == content
    assert [call.name for call in reply.message.tool_calls] == names
    back = server.requests[1]["messages"][-1]
    assert [call["function"]["name"] for call in back.get("tool_calls", ())] == names
    assert bare.message == Message("assistant", text, reasoning="Look?" if "<think>" in text else "")


@pytest.mark.anyio
async def test_a_bare_call_that_was_cut_off_is_not_run() -> None:
    async with FakeOpenAIServer([Reply(OFFERED, finish_reason="length")]) as server, client_of(server) as client:
        reply = await client.generate(ASK, [TOOL])
    (call,) = reply.message.tool_calls
    assert "cut off" in call.error


@pytest.mark.anyio
async def test_an_unknown_parser_is_refused() -> None:
    async with FakeOpenAIServer(["x"]) as server:
        with pytest.raises(ConfigError, match=r"model.tool_parser: no parser 'klingon'; available: .*hermes"):
            async with client_of(server, tool_parser="klingon"):
                pass


@pytest.mark.anyio
async def test_the_reasoning_effort_is_passed_on_and_the_reasoning_kept() -> None:
    answer = Reply("4", message={"reasoning_content": "2 and 2"})
    async with FakeOpenAIServer([answer]) as server, client_of(server, reasoning_effort="high") as client:
        reply = await client.generate(ASK, ())
    assert server.requests[0]["reasoning_effort"] == "high"
    assert (reply.message.content, reply.message.reasoning) == ("4", "2 and 2")


@pytest.mark.anyio
async def test_tries_that_failed_are_counted() -> None:
    async with FakeOpenAIServer([Reply(status=500), Reply(status=503), "x"]) as server, client_of(server) as client:
        assert (await client.generate(ASK, ())).retries == 2
        assert (await client.generate(ASK, ())).retries == 0


@pytest.mark.anyio
@pytest.mark.parametrize("body", ['{"error": "indisponible é"}'.encode("latin-1"), b'{"error": ' + b"[" * 100_000])
async def test_an_error_whose_body_is_no_json_is_tried_again_like_any_other(body: bytes) -> None:
    replies = [Reply(status=503, body=body), "x"]
    async with FakeOpenAIServer(replies) as server, client_of(server) as client:
        assert (await client.generate(ASK, ())).retries == 1


@pytest.mark.anyio
@pytest.mark.parametrize("url", ["http://[::1/v1", "http://a..b/v1", "http://h:99999/v1", "http://h:abc/v1", "h:80/v1"])
async def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match=r"model\.base_url: .* is not an http:// or https:// URL"):
        async with open_endpoints(ModelConfig(base_url=url), [""], tool_format="native", concurrency=1):
            pass
