"""Replies of chat completions, as they come: whatever is beside the answer never costs it, and nothing else is one."""

import json
from random import Random
from typing import Any

import msgspec
import pytest
from fakes.mutate import mutated

from hermes_lab.agent.loop import Agent
from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.config.schema import AgentConfig, ModelConfig, PriceConfig
from hermes_lab.errors import ModelError
from hermes_lab.models.advice import advice
from hermes_lab.models.finish import ENDINGS, ending_of
from hermes_lab.models.refusals import Failed, Refused
from hermes_lab.models.unread import family_of
from hermes_lab.models.wires.chat import ChatWire
from hermes_lab.models.wires.loose import decode_json
from hermes_lab.models.wires.sse import events_of, is_stream
from hermes_lab.tools.registry import ToolContext
from hermes_lab.tools.toolbox import Toolbox
from hermes_lab.types import Generation, Message, ModelIdentity, ToolCall, Usage

ASK = [Message("user", "What is 2+2?")]
SOUND = ENDINGS["stop"] | ENDINGS["tool_calls"]
WORDS = [
    *sorted(word for words in ENDINGS.values() for word in words),
    "STOP",
    "weird",
    "",
    None,
    3,
    ["stop"],
    {"type": "stop"},
]
CALL = {"id": "a", "type": "function", "function": {"name": "add", "arguments": '{"by":1}'}}
WHOLE: dict[str, Any] = {
    "id": "x",
    "object": "chat.completion",
    "model": "m",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Four.", "reasoning_content": "Hm.", "tool_calls": [CALL]},
            "finish_reason": "tool_calls",
            "logprobs": None,
        }
    ],
    "usage": {"prompt_tokens": 9, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 4}},
}


def wire(**config: Any) -> ChatWire:
    return ChatWire(ModelConfig(name="m", **config), "m", "native")


def reply(message: dict[str, Any], finish: object = "stop", **more: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"role": "assistant", **message}, "finish_reason": finish}], **more}


def read(received: object, **config: Any) -> Generation:
    return wire(**config).read(received, ASK, ())


def read_anything(received: object) -> Generation | None:
    try:
        got = read(received)
    except ModelError:
        return None
    msgspec.json.encode(got)  # it can be recorded
    return got


@pytest.mark.parametrize(
    "message",
    [
        {"content": "4", "reasoning_content": "hm"},
        {"content": "4", "reasoning": "hm"},
        {"content": "4", "reasoning": "hm", "reasoning_content": "hm"},
        {"content": "4", "reasoning_details": [{"type": "reasoning.text", "text": "hm", "signature": "s"}]},
        {"content": "4", "reasoning": {"content": "hm"}},
        {"content": "4", "thinking": "hm"},
        {"content": "4", "thinking_blocks": [{"type": "thinking", "thinking": "hm"}], "reasoning_text": "hm"},
        {
            "content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
                {"type": "text", "text": "4"},
            ]
        },
        {"content": [{"type": "reasoning", "text": "hm"}, "4"]},
        {"content": [{"type": "output_text", "text": "4"}], "reasoning_content": "hm", "annotations": []},
    ],
)
def test_reasoning_in_a_field_of_its_own_is_no_part_of_the_content(message: dict[str, Any]) -> None:
    got = read(reply(message)).message
    assert (got.content, got.reasoning, got.provider_fields) == ("4", "hm", {})


@pytest.mark.parametrize(
    "fields",
    [
        {"reasoning_content": "hm"},
        {"reasoning": "hm", "reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]},
        {"extra_content": {"google": {"thought_signature": "sig"}}},
    ],
)
def test_what_an_endpoint_wants_back_beside_a_call_goes_back_as_it_came(fields: dict[str, Any]) -> None:
    side = {"annotations": [], "audio": None, "refusal": None}
    call = CALL | {"extra_content": {"google": {"thought_signature": "s"}}, "index": 0}
    got = read(reply({"content": "", "tool_calls": [call], **fields, **side}, "tool_calls")).message
    assert msgspec.json.decode(msgspec.json.encode(got), type=Message) == got
    back = wire().body([*ASK, got, Message("tool", "{}", tool_call_id="a")], ())["messages"][1]
    kept_call = CALL | {"extra_content": {"google": {"thought_signature": "s"}}}
    assert back == {"role": "assistant", "content": None, "tool_calls": [kept_call], **fields}


def test_what_another_format_keeps_is_not_sent() -> None:
    said = Message("assistant", "", (ToolCall("a", "add"),), provider_fields={"anthropic": [], "responses": []})
    assert wire().body([said], ())["messages"][0].keys() == {"role", "content", "tool_calls"}


@pytest.mark.parametrize("word", WORDS)
def test_only_words_that_are_known_as_an_end_are_one(word: object) -> None:
    got = read_anything(reply({"content": "Half an ans"}, word))
    known = isinstance(word, str) and word.lower() in SOUND
    assert (got is not None and got.finish_reason in ("stop", "tool_calls")) == known


@pytest.mark.parametrize("word", ["abort", "error", "network_error"])
def test_a_server_that_gave_up_is_asked_again(word: str) -> None:
    with pytest.raises(Failed, match=word):
        read(reply({"content": "Half an ans"}, word))


def test_a_word_that_is_not_known_can_be_configured() -> None:
    with pytest.raises(ModelError, match=r"model\.finish_reasons"):
        read(reply({"content": "4"}, "voila"))
    assert read(reply({"content": "4"}, "voila"), finish_reasons=("Voila",)).finish_reason == "stop"
    assert read(reply({"content": "4"}, None), finish_reasons=("null",)).finish_reason == "stop"
    assert ending_of("voila") == "unknown"


def test_the_last_call_of_a_reply_that_was_cut_is_not_run() -> None:
    first, last = read(reply({"tool_calls": [CALL, CALL | {"id": "b"}]}, "length")).message.tool_calls
    assert not first.error
    assert "cut off" in last.error


TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
NAMELESS = {"type": "function", "function": {"name": "add", "arguments": "{}"}}


def test_a_call_without_an_id_gets_one_that_no_earlier_call_has() -> None:
    earlier = read(reply({"tool_calls": [NAMELESS, NAMELESS]}, "tool_calls")).message
    shortened = [earlier]  # a compression made the conversation as short as it was then
    again = wire().read(reply({"tool_calls": [NAMELESS]}, "tool_calls"), shortened, [TOOL]).message
    ids = [call.id for call in (*earlier.tool_calls, *again.tool_calls)]
    assert len(set(ids)) == 3


CALLS_NOTHING = [
    {"content": "Let me look at the file first.", "tool_calls": []},
    {"content": "Let me look at the file first."},
    {"content": None},
    {"content": None, "tool_calls": None, "reasoning_content": "I call add."},
]


@pytest.mark.parametrize("message", CALLS_NOTHING)
@pytest.mark.parametrize("word", ["tool_calls", "function_call"])
def test_a_reply_that_ends_with_calls_but_has_none_is_no_answer(message: dict[str, Any], word: str) -> None:
    with pytest.raises(Failed, match=f"finish_reason '{word}', but no call"):
        wire().read(reply(message, word), ASK, [TOOL])
    delta = {name: value for name, value in message.items() if value}
    streamed_reply = wire().assemble(events_of(chunks(delta, finish=word)))
    with pytest.raises(Failed, match=f"finish_reason '{word}', but no call"):
        wire().read(streamed_reply, ASK, [TOOL])


def test_a_call_that_nothing_offered_is_no_failure() -> None:
    assert read(reply({"content": "4"}, "tool_calls")).message.content == "4"  # no tools were offered
    written = ChatWire(ModelConfig(name="m"), "m", "hermes").read(reply({"content": "4"}, "tool_calls"), ASK, [TOOL])
    assert written.message.content == "4"


@pytest.mark.parametrize(
    ("body", "kind", "says"),
    [
        ({"error": {"message": "overloaded", "code": 502}}, Failed, "overloaded.*502"),
        ({"error": "busy"}, Failed, "busy"),
        ({"error": {"message": "no", "code": 400}}, Refused, "no"),
        ({"error": {"message": "bad key", "type": "authentication_error"}}, Refused, "bad key"),
        ({"object": "error", "message": "gone", "code": 40303}, Failed, "gone"),
        ({"base_resp": {"status_code": 1002, "status_msg": "rate"}}, Failed, "rate"),
        ({"detail": "nope"}, Failed, "nope"),
        (reply({"content": ""}, "error", error={"message": "why"}), Failed, "why"),
        (
            {"choices": [{"error": {"message": "upstream", "code": 429}, "message": {"content": ""}}]},
            Failed,
            "upstream",
        ),
    ],
)
def test_an_error_in_place_of_a_reply_is_told_in_its_own_words(body: object, kind: type[ModelError], says: str) -> None:
    with pytest.raises(kind, match=says):
        read(body)


@pytest.mark.parametrize(
    ("usage", "known"),
    [
        ({"prompt_tokens": 9, "completion_tokens": 3, "prompt_cache_hit_tokens": 4}, Usage(9, 3, 4)),
        ({"prompt_tokens": 9, "completion_tokens": 3, "cached_tokens": 4}, Usage(9, 3, 4)),
        ({"prompt_tokens": None, "completion_tokens": "3"}, Usage(uncounted=1)),
        ({"input_tokens": 9, "output_tokens": 3}, Usage(9, 3)),
        ({"prompt_tokens": -1, "completion_tokens": 1e300}, Usage(uncounted=1)),
        (
            {
                **{"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 17},
                "completion_tokens_details": {"reasoning_tokens": 5},
            },
            Usage(9, 8, reasoning_tokens=5),
        ),
        ({"completion_tokens": 3}, Usage(0, 3, uncounted=1)),
        ("much", Usage(uncounted=1)),
    ],
)
def test_tokens_are_counted_as_far_as_they_are_told(usage: object, known: Usage) -> None:
    assert read(reply({"content": "4"}, usage=usage)).usage == known


def test_bytes_that_no_record_can_hold_become_the_replacement_character() -> None:
    assert decode_json(b'\xef\xbb\xbf{"a": "\xff"}') == {"a": "\ufffd"}
    assert decode_json(rb'{"a": "\ud83d x"}') == {"a": "\ufffd x"}
    assert decode_json(b'{"a": NaN}') == {"a": None}
    with pytest.raises(ModelError):
        decode_json(b"[" * 100_000)


def chunks(*deltas: dict[str, Any], finish: object = "stop", done: bool = True) -> bytes:
    events: list[Any] = [{"model": "m", "choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    events.append({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 3}})
    lines = [": ping", *(f"data: {json.dumps(event)}" for event in events), *(["data: [DONE]"] if done else [])]
    return "\n\n".join([*lines, ""]).encode()


def streamed(content: bytes) -> Generation:
    assert is_stream(content)
    return wire().read(wire().assemble(events_of(content)), ASK, ())


def piece(index: int | None, **function: Any) -> dict[str, Any]:
    more = {} if index is None else {"index": index}
    return {"tool_calls": [{**more, **function.pop("of", {}), "function": function}]}


def test_a_stream_is_read_as_the_reply_that_it_makes_up() -> None:
    got = streamed(
        chunks({"role": "assistant", "reasoning_content": "h"}, {"reasoning_content": "m"}, {"content": "4"})
    )
    assert got == Generation(Message("assistant", "4", reasoning="hm"), "stop", Usage(9, 3))


@pytest.mark.parametrize("index", [0, None])
def test_calls_of_a_stream_are_put_together(index: int | None) -> None:
    deltas = [
        piece(index, of={"id": "a"}, name="add", arguments='{"by"'),
        piece(index, arguments=": 1}"),
        piece(None if index is None else 1, of={"id": "b"}, name="add", arguments='{"by": 2}'),
    ]
    got = streamed(chunks(*deltas, finish="tool_calls"))
    assert [(call.id, call.arguments) for call in got.message.tool_calls] == [("a", {"by": 1}), ("b", {"by": 2})]


def test_calls_without_index_and_id_are_told_apart_by_their_names() -> None:
    two = [piece(None, of={"id": ""}, name="add", arguments=f'{{"by": {n}}}') for n in (1, 2)]
    got = streamed(chunks(*two, finish="stop"))
    assert [call.arguments for call in got.message.tool_calls] == [{"by": 1}, {"by": 2}]


@pytest.mark.parametrize(
    "text",
    [
        '[TOOL_REQUEST]{"name": "add", "arguments": {}}[END_TOOL_REQUEST]',
        '<｜DSML｜function_calls>\n<｜DSML｜invoke name="add">\n</｜DSML｜invoke>',
        "<function=add>\n</function>",
    ],
)
def test_a_call_in_any_familys_form_is_seen(text: str) -> None:
    assert family_of(text, ["add"])


@pytest.mark.parametrize(
    "text",
    [
        "I do it.\n<tool_call>\n<tool_call></tool_call>",
        '<tool_call>{"name": "add", "arguments": {"by": 1',
        '[TOOL_CALLS][{"name": "add", "arguments": {',
        '<|python_tag|>{"name": "ad',
    ],
)
def test_a_malformed_call_that_ends_a_reply_is_seen(text: str) -> None:
    assert family_of(text, ["add"])


@pytest.mark.parametrize(
    "text",
    [
        "Use <tool_call> to call tools.",
        'It writes <tool_call>{"name": ...}</tool_call>.',
        "Models write\n<tool_call>\n{...}\n</tool_call>\nand a server parses that.",
        "```\n<tool_call>\n{...}\n</tool_call>\n```",
    ],
)
def test_a_call_that_an_answer_speaks_of_is_none(text: str) -> None:
    assert not family_of(text, ["add"])


@pytest.mark.parametrize(
    ("status", "said", "advised"),
    [
        (400, "Argument not supported on this model: presencePenalty", "model.sampling.presence_penalty=null"),
        (500, "tools param requires --jinja flag", "agent.tool_format=hermes"),
        (404, "No endpoints found that support tool use.", "agent.tool_format=hermes"),
        (400, "This model doesn't support tool use.", "agent.tool_format=hermes"),
    ],
)
def test_refusals_are_told_with_the_field_to_change(status: int, said: str, advised: str) -> None:
    body = {"tools": [{}], "presence_penalty": 1.0}
    assert advised in advice(status, said, body, ModelConfig(), "http://host/v1")


def test_what_a_router_was_told_is_told() -> None:
    raw = {"message": "Provider returned error", "code": 400, "metadata": {"raw": "prompt is too long"}}
    with pytest.raises(Refused, match="prompt is too long"):
        read({"error": raw})


def test_a_stream_that_broke_off_is_no_reply() -> None:
    with pytest.raises(Failed, match="before the reply was complete"):
        streamed(chunks({"content": "Half an ans"}, finish=None, done=False))
    with pytest.raises(Failed, match="upstream died"):
        streamed(chunks({"content": "Half"}) + b'data: {"error": {"message": "upstream died"}}\n\n')


def test_no_mutated_reply_is_taken_for_more_than_it_is() -> None:
    random, taken = Random(3), 0
    for _ in range(15_000):
        received = mutated(WHOLE, random)
        if random.random() < 0.5 and isinstance(received, dict) and isinstance(received.get("choices"), list):
            for choice in filter(lambda each: isinstance(each, dict), received["choices"]):
                choice["finish_reason"] = random.choice(WORDS)
        if (got := read_anything(received)) and got.finish_reason in ("stop", "tool_calls"):
            taken += 1
            words = [c.get("finish_reason") for c in received["choices"] if isinstance(c, dict)]
            assert isinstance(words[0], str)
            assert words[0].lower() in SOUND
    assert taken > 2_500


def test_no_mutated_stream_is_taken_for_more_than_it_is() -> None:
    random, taken = Random(4), 0
    events = events_of(chunks({"content": "4", "reasoning": "h"}, piece(0, of={"id": "a"}, name="add", arguments="{}")))
    for _ in range(6_000):
        received = mutated(events, random)
        if (got := read_anything(wire().assemble(received))) and got.finish_reason in ("stop", "tool_calls"):
            taken += 1
            assert '"stop"' in json.dumps(received)
    assert taken > 600


def test_broken_bytes_are_a_reply_or_an_error() -> None:
    random = Random(5)
    whole = json.dumps(WHOLE).encode()
    for _ in range(6_000):
        broken = bytearray(whole)
        for _ in range(random.randint(1, 3)):
            broken[random.randrange(len(broken))] = random.randrange(256)
        try:
            received = decode_json(bytes(broken))
        except ModelError:
            continue
        read_anything(received)


class Once:
    """A model that replies once, as an endpoint did."""

    def __init__(self, received: object, config: ModelConfig) -> None:
        self.identity = ModelIdentity("openai", "m")
        self._received, self._wire = received, ChatWire(config, "m", "native")

    async def generate(self, messages: list[Message], tools: list[Any]) -> Generation:
        return self._wire.read(self._received, messages, tools)

    async def aclose(self) -> None: ...


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("message", "finish", "stop", "answer"),
    [
        ({"content": "<think>two and two</think>\n4"}, "stop", "answered", "4"),
        ({"content": "4", "reasoning_content": "5?"}, "stop", "answered", "4"),
        ({"content": "<think>two and"}, "stop", "empty", None),
        ({"content": None, "reasoning_content": "4"}, "stop", "empty", None),
        ({"content": "Half an ans"}, "max_tokens", "length", None),
        ({"content": "Half an ans"}, "model_length", "length", None),
        ({"content": "I"}, "content_filter", "filtered", None),
        ({"content": None, "refusal": "I cannot."}, "stop", "refused", None),
        ({"content": "I cannot."}, "refusal", "refused", None),
        ({"content": ""}, "MALFORMED_FUNCTION_CALL", "unparsed", None),
        ({"content": '<tool_call>\n{"name": "todo", "arguments": {}}\n</tool_call>'}, "stop", "unparsed", None),
        ({"content": '[TOOL_CALLS][{"name": "todo", "arguments": {}}]'}, "stop", "unparsed", None),
        ({"content": "<|channel|>commentary to=functions.todo<|message|>{}"}, "stop", "unparsed", None),
        ({"content": 'Write {"name": "other", "arguments": {}} in a.json.'}, "stop", "answered", ...),
    ],
)
async def test_an_episode_ends_as_its_last_reply_did(
    message: dict[str, Any], finish: str, stop: str, answer: object
) -> None:
    config = AgentConfig(toolsets=("todo",))
    toolbox = Toolbox(config.toolsets, ToolContext(None, None, SandboxConfig()))  # type: ignore[arg-type]
    agent = Agent(Once(reply(message, finish), ModelConfig()), toolbox, config, [])
    ended = await agent.submit("What is 2+2?")
    assert ended == stop
    said = message["content"] if answer is ... else answer
    assert agent.trajectory(ended).final_response == said


@pytest.mark.anyio
@pytest.mark.parametrize(("limit", "named"), [({"max_cost": 1.0}, "max_cost"), ({"max_tokens": 500}, "max_tokens")])
async def test_a_limit_that_nothing_counts_for_is_an_error(limit: dict[str, Any], named: str) -> None:
    told = {"prompt_tokens": 9, "completion_tokens": 3}
    for usage, stop in ((told, "answered"), ({}, None)):
        config = AgentConfig(toolsets=("todo",), **limit)
        toolbox = Toolbox(config.toolsets, ToolContext(None, None, SandboxConfig()))  # type: ignore[arg-type]
        model = Once(reply({"content": "4"}, usage=usage), ModelConfig())
        agent = Agent(model, toolbox, config, [], PriceConfig(prompt=1.0))
        if stop:
            assert await agent.submit("What is 2+2?") == stop
        else:
            with pytest.raises(ModelError, match=f"no `usage` .* so agent.{named} cannot be enforced"):
                await agent.submit("What is 2+2?")
        assert agent.usage.uncounted == agent.steps[0].usage.uncounted == (not usage)


@pytest.mark.anyio
async def test_without_a_limit_steps_that_nothing_counts_are_marked() -> None:
    config = AgentConfig(toolsets=("todo",))
    toolbox = Toolbox(config.toolsets, ToolContext(None, None, SandboxConfig()))  # type: ignore[arg-type]
    agent = Agent(Once(reply({"content": "4"}), ModelConfig()), toolbox, config, [])
    assert await agent.submit("What is 2+2?") == "answered"
    assert [step.usage for step in agent.steps] == [Usage(uncounted=1)]
