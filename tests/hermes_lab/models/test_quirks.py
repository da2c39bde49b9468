"""Each cell of the table in docs/models.md, through the real client: what a server sends, and what comes of it."""

import json
from pathlib import Path
from typing import Any

import pytest
import quirks
from fakes.openai_server import FakeOpenAIServer, Reply
from test_requests import client_of

from hermes_lab.errors import ConfigError, ContextFull, ModelError
from hermes_lab.models import endpoint
from hermes_lab.models.finish import SOUND, ending_of
from hermes_lab.models.reasoning import split_reasoning
from hermes_lab.models.unread import family_of
from hermes_lab.types import Generation, Message

ROOT = Path(__file__).parents[3]
ASK = [Message("user", "What is 2+2?")]
TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "_FIRST_WAIT", 0.001)


def completion(message: dict[str, Any], finish: object = "stop", **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}], **more}


async def ask(*replies: Reply, tools: Any = (), **config: Any) -> tuple[Generation, FakeOpenAIServer]:
    async with FakeOpenAIServer(replies) as server, client_of(server.base_url, **config) as client:
        return await client.generate(ASK, tools), server


@pytest.mark.parametrize("server", quirks.TOO_LONG)
async def test_a_prompt_that_is_too_long(server: str) -> None:
    status, body = quirks.TOO_LONG[server]
    with pytest.raises(ContextFull):
        await ask(Reply(status=status, body=body))


@pytest.mark.parametrize("server", quirks.LIMIT_NAME)
async def test_the_limits_name_is_learned_and_then_known(server: str) -> None:
    refusal = Reply(status=400, body=quirks.error(quirks.LIMIT_NAME[server], type="invalid_request_error"))

    def answer(body: dict[str, Any]) -> Reply:
        return refusal if "max_tokens" in body else Reply("4")

    async with FakeOpenAIServer(answer) as fake, client_of(fake.base_url) as client:
        await client.generate(ASK, ())
        await client.generate(ASK, ())
    assert ["max_completion_tokens" in sent for sent in fake.requests] == [False, True, True]


@pytest.mark.parametrize("server", quirks.SAMPLING)
async def test_a_refused_sampling_field(server: str) -> None:
    said, field = quirks.SAMPLING[server]
    with pytest.raises(ModelError, match=rf"set .*model\.sampling\.{field}=null.* to omit it"):
        await ask(Reply(status=400, body=quirks.error(said)))


@pytest.mark.parametrize("server", quirks.REASONING)
async def test_reasoning(server: str) -> None:
    got, _ = await ask(Reply(body=completion(quirks.REASONING[server])))
    assert (split_reasoning(got.message.content).answer, got.message.reasoning) == ("4", "hm")


async def the_request_after(*replies: Reply) -> dict[str, Any]:
    async with FakeOpenAIServer(replies) as server, client_of(server.base_url) as client:
        got = (await client.generate(ASK, [TOOL])).message
        talk = [*ASK, got, Message("tool", "{}", tool_call_id=got.tool_calls[0].id)]
        await client.generate(talk, [TOOL])
    sent: dict[str, Any] = server.requests[-1]["messages"][1]
    return sent


CALL = {"id": "a", "type": "function", "function": {"name": "add", "arguments": "{}"}}


@pytest.mark.parametrize("server", quirks.WANTED_BACK)
async def test_what_is_wanted_back(server: str) -> None:
    fields = quirks.WANTED_BACK[server]
    called = Reply(body=completion({"content": "", "tool_calls": [CALL], **fields}, "tool_calls"))
    assert fields.items() <= (await the_request_after(called, Reply("4"))).items()


async def test_a_thought_signature_of_gemini() -> None:
    signed = CALL | {"extra_content": {"google": {"thought_signature": "c2ln"}}}
    called = Reply(body=completion({"tool_calls": [signed]}, "tool_calls"))
    assert (await the_request_after(called, Reply("4")))["tool_calls"] == [signed]


@pytest.mark.parametrize("server", quirks.NOT_WANTED_BACK)
async def test_what_is_not_wanted_back(server: str) -> None:
    field, detail = quirks.NOT_WANTED_BACK[server]
    called = Reply(body=completion({"tool_calls": [CALL], field: "hm"}, "tool_calls"))
    sent = await the_request_after(called, Reply(status=422, body={"detail": detail}), Reply("4"))
    assert field not in sent


@pytest.mark.parametrize(("server", "word"), [(s, word) for s, words in quirks.FINISH.items() for word in words])
async def test_finish_reasons(server: str, word: str) -> None:
    reply = Reply(body=completion({"content": "Half an ans"}, word))
    means = quirks.FINISH[server][word]
    if means == "error":
        with pytest.raises(ModelError, match=word):
            await ask(reply)
        return
    got, _ = await ask(reply)
    assert got.finish_reason in (("stop", "tool_calls") if means == "sound" else (means,))


@pytest.mark.parametrize("server", quirks.PASSING)
async def test_a_passing_failure(server: str) -> None:
    status, body = quirks.PASSING[server]
    failure = Reply(status=status, body=body)
    got, _ = await ask(failure, Reply("4"))
    assert (got.message.content, got.retries) == ("4", 1)
    words = body if isinstance(body, str) else (body[0] if isinstance(body, list) else body)["error"]["message"]
    with pytest.raises(ModelError) as raised:
        await ask(failure, max_retries=0)
    assert words in str(raised.value)


@pytest.mark.parametrize("server", quirks.LISTS)
async def test_a_model_list(server: str) -> None:
    name, body = quirks.LISTS[server]
    fake = FakeOpenAIServer(["4"], lists_models=body is not None, list_body=body)
    async with fake as running, client_of(running.base_url, name=name) as client:
        await client.generate(ASK, ())


async def test_a_name_that_the_list_lacks_and_the_endpoint_refuses_ends_the_run() -> None:
    async with FakeOpenAIServer(["4"], models=["a", "b"]) as fake:
        with pytest.raises(ConfigError, match=r"serves a, b, not 'c': .*HTTP 404: The model `c` does not exist"):
            async with client_of(fake.base_url, name="c"):
                pass
    assert len(fake.requests) == 1


@pytest.mark.parametrize(
    ("name", "listed"),
    [
        ("my-gpt4", ["gpt-4o-2024-08-06"]),  # a deployment of Azure
        ("claude-sonnet-4-5", ["claude-sonnet-4-5-20250929"]),
        ("openai/gpt-4o", ["openai/*"]),  # LiteLLM
        ("@preset/x", ["openai/gpt-4o"]),  # OpenRouter
    ],
)
async def test_a_name_that_the_list_lacks_and_the_endpoint_serves_is_used(name: str, listed: list[str]) -> None:
    fake = FakeOpenAIServer(["4"], models=listed, unlisted=[name])
    async with fake, client_of(fake.base_url, name=name) as client:
        await client.generate(ASK, ())
    assert [request["max_tokens"] for request in fake.requests] == [16, 1024]


@pytest.mark.parametrize(
    ("status", "said", "ends"),
    [
        (400, "x is not a valid model ID", True),
        (400, "Invalid model: x", True),
        (400, "Model Not Exist", True),
        (403, "You do not have access to the model x", True),
        (400, "`max_tokens` must be greater than `thinking.budget_tokens`", False),
        (400, "Unsupported parameter: temperature", False),
        (400, "Unsupported parameter: 'top_p' is not supported with this model.", False),
    ],
)
async def test_only_a_refusal_of_the_name_ends_the_run(status: int, said: str, ends: bool) -> None:
    refusal = Reply(status=status, body={"error": {"message": said}})
    fake = FakeOpenAIServer([refusal], models=["a"], unlisted=["x"])
    if ends:
        async with fake:
            with pytest.raises(ConfigError, match="serves a, not 'x'"):
                async with client_of(fake.base_url, name="x"):
                    pass
        return
    async with fake, client_of(fake.base_url, name="x"):
        pass


async def test_what_is_not_about_the_name_is_told_by_the_episodes() -> None:
    fake = FakeOpenAIServer([Reply(status=500), "4"], models=["a"], unlisted=["c"])
    async with fake, client_of(fake.base_url, name="c", max_retries=0) as client:
        assert (await client.generate(ASK, ())).message.content == "4"


@pytest.mark.parametrize("server", quirks.FILTERED_PROMPTS)
async def test_a_prompt_that_the_filter_refuses_is_filtered_and_not_owed(server: str) -> None:
    got, fake = await ask(Reply(status=400, body=quirks.FILTERED_PROMPTS[server]))
    assert (got.finish_reason, got.message.content, len(fake.requests)) == ("content_filter", "", 1)


@pytest.mark.parametrize("word", ["content_filter: PROHIBITED_CONTENT", "content_filter", "SAFETY"])
@pytest.mark.parametrize("message", [{}, {"message": None}])
async def test_a_reply_that_is_withheld_as_a_whole_is_filtered(word: str, message: dict[str, None]) -> None:
    got, _ = await ask(Reply(body={"choices": [{"index": 0, "finish_reason": word, **message}]}))
    assert (got.finish_reason, got.message.content) == ("content_filter", "")


@pytest.mark.parametrize(
    "word", ["error: stop", "failed: stop", "content_filter: STOP", "nothing known: stop", "stop: error"]
)
def test_no_prefix_makes_an_end_sound(word: str) -> None:
    assert ending_of(word) not in SOUND


@pytest.mark.parametrize("server", quirks.USAGE)
async def test_usage(server: str) -> None:
    usage, (prompt, sampled, cached) = quirks.USAGE[server]
    got, _ = await ask(Reply(body=completion({"content": "4"}, usage=usage)))
    assert (got.usage.prompt_tokens, got.usage.completion_tokens, got.usage.cached_tokens) == (prompt, sampled, cached)


@pytest.mark.parametrize("server", quirks.STREAMS)
async def test_a_stream(server: str) -> None:
    got, fake = await ask(Reply(pieces=[quirks.STREAMS[server]]), stream=True)
    assert (got.message.content, fake.requests[0]["stream"]) == ("4", True)


def streamed(*deltas: dict[str, Any]) -> bytes:
    chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks).encode() + b"data: [DONE]\n\n"


@pytest.mark.parametrize(
    ("pieces", "content", "reasoning"),
    [
        (["The answer ", [{"type": "text", "text": "is 42"}]], "The answer is 42", ""),
        ([[{"type": "text", "text": "4"}], "2"], "42", ""),
        (["", [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}], "4", "2"], "42", "hm"),
        (["4", None, "2", []], "42", ""),
        ([[{"type": "text", "text": "4"}], "2", ""], "42", ""),
        ([[{"type": "text", "text": "42"}], ""], "42", ""),
    ],
)
async def test_streamed_content_may_change_its_form(pieces: list[object], content: str, reasoning: str) -> None:
    body = streamed(*({"content": piece} for piece in pieces))
    got, _ = await ask(Reply(pieces=[body]), stream=True)
    assert (got.message.content, got.message.reasoning) == (content, reasoning)


@pytest.mark.parametrize("ids", [["a", "b"], [None, None]], ids=["ids", "no ids"])
async def test_streamed_calls_that_all_have_the_index_0_are_calls_of_their_own(ids: list[str | None]) -> None:
    calls = [
        {"index": 0, "id": call_id, "type": "function", "function": {"name": "add", "arguments": json.dumps({"by": n})}}
        for n, call_id in enumerate(ids)
    ]
    got, _ = await ask(Reply(pieces=[streamed(*({"tool_calls": [call]} for call in calls))]), stream=True, tools=[TOOL])
    assert [call.arguments for call in got.message.tool_calls] == [{"by": 0}, {"by": 1}]


@pytest.mark.parametrize(
    "event",
    [
        {"object": "error", "message": "CUDA out of memory on rank 3", "code": 500},  # vLLM of 2024
        {"code": 500, "message": "CUDA out of memory on rank 3"},
        {"error": {"message": "CUDA out of memory on rank 3"}},
    ],
)
async def test_an_error_in_a_stream_keeps_its_words_and_is_tried_again(event: dict[str, object]) -> None:
    begun = b'data: {"choices": [{"index": 0, "delta": {"content": "4"}}]}\n\n'
    broken = begun + f"data: {json.dumps(event)}\n\ndata: [DONE]\n\n".encode()
    got, fake = await ask(Reply(pieces=[broken]), Reply(pieces=[streamed({"content": "5"})]), stream=True)
    assert (got.message.content, len(fake.requests)) == ("5", 2)
    with pytest.raises(ModelError, match="CUDA out of memory on rank 3"):
        await ask(Reply(pieces=[broken]), stream=True, max_retries=0)


@pytest.mark.parametrize("server", quirks.STREAMED_CALLS)
async def test_a_call_in_a_stream(server: str) -> None:
    deltas = [{"choices": [{"index": 0, "delta": {"tool_calls": [each]}}]} for each in quirks.STREAMED_CALLS[server]]
    deltas.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    body = "".join(f"data: {json.dumps(delta)}\n\n" for delta in deltas).encode() + b"data: [DONE]\n\n"
    got, _ = await ask(Reply(pieces=[body]), stream=True, tools=[TOOL])
    assert [(call.id, call.name, call.arguments) for call in got.message.tool_calls] == [("a", "add", {"by": 1})]


async def test_an_endpoint_that_only_streams_is_found_out() -> None:
    refusal = Reply(status=400, body={"detail": "Stream must be set to true"})
    got, fake = await ask(refusal, Reply(pieces=[quirks.STREAMS["OpenAI"]]))
    assert (got.message.content, "stream" in fake.requests[0], fake.requests[1]["stream"]) == ("4", False, True)


@pytest.mark.parametrize(
    "said",
    [
        "Unrecognized request argument supplied: stream_options",
        "[{'loc': ('body', 'stream_options'), 'msg': 'Extra inputs are not permitted'}]",
    ],
)
async def test_a_stream_without_usage_is_asked_for_where_its_options_are_refused(said: str) -> None:
    refusal = Reply(status=400, body={"error": {"message": said}})
    got, fake = await ask(refusal, Reply(pieces=[quirks.STREAMS["OpenAI"]]), stream=True)
    assert got.message.content == "4"
    assert [("stream_options" in each, each["stream"]) for each in fake.requests] == [(True, True), (False, True)]


async def test_a_field_of_vllm_that_another_server_refuses_is_left_out() -> None:
    refusal = Reply(status=400, body={"error": {"message": "Unrecognized request argument: skip_special_tokens"}})
    got, fake = await ask(refusal, Reply("4"), tools=[TOOL], tool_parser="hermes")
    assert got.message.content == "4"
    assert ["skip_special_tokens" in request for request in fake.requests] == [True, False]


async def test_a_refused_field_of_extra_body_is_named_as_that() -> None:
    refusal = Reply(status=400, body={"error": {"message": "Unrecognized request argument supplied: top_k"}})
    with pytest.raises(ModelError, match=r"top_k comes from model\.extra_body"):
        await ask(refusal, extra_body={"top_k": 3})


async def test_no_empty_text_stands_beside_calls() -> None:
    sent = await the_request_after(
        Reply(body=completion({"content": "", "tool_calls": [CALL]}, "tool_calls")), Reply("4")
    )
    assert sent["content"] is None


async def test_azures_address_and_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "k")
    async with FakeOpenAIServer(["4"]) as fake:
        url = f"{fake.base_url}?api-version=2024-10-21"
        config = {"headers": {"api-key": "${AZURE_OPENAI_API_KEY}"}, "api_key_env": ""}
        async with client_of(url, **config) as client:
            await client.generate(ASK, ())
    assert fake.headers[-1]["api-key"] == "k"
    assert fake.queries == ["api-version=2024-10-21"] * 2


@pytest.mark.parametrize("server", quirks.MISSING_V1)
async def test_a_missing_v1(server: str) -> None:
    async with FakeOpenAIServer(["4"], root_answers=quirks.MISSING_V1[server]) as fake:
        with pytest.raises(ConfigError, match=f"set model.base_url={fake.base_url}"):
            async with client_of(fake.base_url.removesuffix("/v1")):
                pass


@pytest.mark.parametrize("server", quirks.NO_TOOLS)
async def test_a_server_without_tools(server: str) -> None:
    status, body, field = quirks.NO_TOOLS[server]
    with pytest.raises(ModelError, match=field):
        await ask(Reply(status=status, body=body), tools=[TOOL])


@pytest.mark.parametrize("server", quirks.IN_THE_TEXT)
async def test_a_call_left_in_the_text(server: str) -> None:
    text, family = quirks.IN_THE_TEXT[server]
    got, _ = await ask(Reply(text), tools=[TOOL])
    assert family_of(got.message.content, ["add"]) == family


async def test_the_table_of_the_docs_has_these_cells_and_no_others() -> None:
    lines = (ROOT / "docs/models.md").read_text().splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("| quirk |"))
    header = [cell.strip() for cell in lines[start].strip("|").split("|")][1:]
    assert tuple(header) == quirks.SERVERS
    found: dict[str, set[str]] = {}
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        name, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert set(cells) <= {"", "✓"}
        found[name] = {server for server, cell in zip(header, cells, strict=True) if cell}
    assert found == {name: set(servers) for name, servers in quirks.TABLE.items()}
