"""The Anthropic Messages format.

A reply's content blocks are kept in `Message.provider_fields["anthropic"]` and sent back unchanged: thinking blocks are
signed, and the API refuses missing or changed ones.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hermes_lab.config.schema import ModelConfig, SamplingConfig
from hermes_lab.errors import ConfigError, ModelError
from hermes_lab.models.finish import SOUND
from hermes_lab.models.parsers._values import kind
from hermes_lab.models.refusals import Failed, Refused
from hermes_lab.models.wires.calls import read_call
from hermes_lab.models.wires.checks import refuse_fields, sound_ending
from hermes_lab.models.wires.failure import failure_of
from hermes_lab.models.wires.loose import count, decode_json, items, mapping, text
from hermes_lab.models.wires.native import NativeWire
from hermes_lab.models.wires.native_calls import broken_call, cut_call, function, own_ids, sendable_id, sendable_name
from hermes_lab.protocols import Delta
from hermes_lab.types import Generation, Message, ToolCall, Usage
from hermes_lab.types.trajectory import ToolFormat

VERSION = "2023-06-01"
"""The API version, sent with every request."""
FIELD = "anthropic"
"""The key of the stored content blocks in `Message.provider_fields`."""

_MISSING = ("seed", "min_p", "presence_penalty", "frequency_penalty")
_EPHEMERAL = {"type": "ephemeral"}
_THINKING = ("thinking", "redacted_thinking")
# Error types that a retry does not fix, with the status that the API gives them outside of a 200.
_STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
}
# The block type of each delta. Other deltas (citations) are not needed.
_OWNER = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "thinking",
    "input_json_delta": "tool_use",
}


class AnthropicWire(NativeWire):
    """The Messages API, set up for one model.

    `top_p` 1 has no effect and is not sent: newer models refuse it together with a temperature. `reasoning_effort` is
    sent as `output_config.effort`, with adaptive thinking unless `extra_body` contains `thinking`.
    """

    path = "/messages"

    def __init__(self, config: ModelConfig, model: str, tool_format: ToolFormat = "native") -> None:
        """Raises `ConfigError` if `config` requests something the API does not support."""
        refuse_fields(config, "the Anthropic Messages API", _MISSING)
        super().__init__(config, _fixed_fields(config, model), tool_format)
        self._marks_cache = config.prompt_cache

    def headers(self, key: str) -> dict[str, str]:
        """The key and the API version."""
        return {"anthropic-version": VERSION} | ({"x-api-key": key} if key else {})

    def body(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], *, stream: bool = False
    ) -> dict[str, Any]:
        """See `Wire`."""
        if "max_tokens" not in self._fixed:  # a program's own request has a limit, and does not come here
            raise ConfigError("model.sampling.max_tokens: the Anthropic Messages API needs a number, not null")
        body = self._fixed | ({"stream": True} if stream else {})
        if system := [block for message in messages if message.role == "system" for block in _text(message.content)]:
            body["system"] = system
        body["messages"] = _turns(messages, self._native)
        if tools and self._native:
            body["tools"] = [_tool(schema) for schema in tools]
        if self._marks_cache:
            _mark_cache(body)
        return body

    def _read(self, received: Mapping[str, Any], sent: Sequence[Message]) -> Generation:
        _raise_error(received)
        ending = sound_ending("stop_reason", received.get("stop_reason"), self._sound)
        content = received.get("content")
        if not isinstance(content, list):
            raise ModelError("the reply has no content")
        blocks = [dict(block) for block in content if isinstance(block, Mapping)]
        calls: Sequence[ToolCall] = ()
        if self._native:
            calls = _take_calls(blocks, sent, is_cut=ending not in SOUND)
        if self._native and ending == "tool_calls" and not calls:
            raise Failed("the reply has the stop_reason 'tool_use', but no tool_use block")
        message = Message(
            role="assistant",
            content="".join(text(block.get("text")) for block in blocks if block.get("type") == "text"),
            tool_calls=tuple(calls),
            reasoning=_reasoning(blocks),
            provider_fields={FIELD: blocks} if self._native and blocks else {},
        )
        return Generation(message, ending, _usage(mapping(received.get("usage"))))

    def assemble(self, events: Sequence[object]) -> object:
        """See `Wire`. A stream that broke off gives an error."""
        stream = _Stream()
        for event in map(mapping, events):
            if event.get("type") == "error":
                return event
            stream.add(event)
        return stream.reply()

    def deltas(self, event: object) -> Iterator[Delta]:
        """See `Wire`."""
        received = mapping(event)
        block, delta = mapping(received.get("content_block")), mapping(received.get("delta"))
        if block.get("type") == "text":
            yield Delta("text", text(block.get("text")))
        elif block.get("type") == "thinking":
            yield Delta("reasoning", f"\n\n{text(block.get('thinking'))}")
        elif delta.get("type") == "text_delta":
            yield Delta("text", text(delta.get("text")))
        elif delta.get("type") == "thinking_delta":
            yield Delta("reasoning", text(delta.get("thinking")))


def _fixed_fields(config: ModelConfig, model: str) -> dict[str, Any]:
    """The fields of every request."""
    sampling = config.sampling
    fields = dict(config.extra_body) | {"model": model}
    if sampling.max_tokens is not None:
        fields["max_tokens"] = sampling.max_tokens
    if config.stream:
        fields["stream"] = True
    if sampling.temperature is not None:
        fields["temperature"] = sampling.temperature
    if sampling.top_p not in (None, 1.0):
        fields["top_p"] = sampling.top_p
    if sampling.top_k is not None:
        fields["top_k"] = sampling.top_k
    if sampling.stop:
        fields["stop_sequences"] = list(sampling.stop)
    if config.reasoning_effort == "minimal":
        raise ConfigError("model.reasoning_effort: the Anthropic Messages API has no `minimal`; use `low`")
    if config.reasoning_effort:
        fields["output_config"] = dict(mapping(fields.get("output_config"))) | {"effort": config.reasoning_effort}
        fields.setdefault("thinking", {"type": "adaptive"})
    if mapping(fields.get("thinking")).get("type") in ("enabled", "adaptive"):
        _check_sampling_with_thinking(sampling)
    return fields


def _check_sampling_with_thinking(sampling: SamplingConfig) -> None:
    """Raises `ConfigError` for parameters that the API refuses with thinking, before the first request."""
    if sampling.temperature not in (None, 1.0):
        raise ConfigError("model.sampling.temperature: with thinking the API only accepts 1; set it to null")
    if sampling.top_k is not None:
        raise ConfigError("model.sampling.top_k: not supported by the API with thinking; set it to null")
    if sampling.top_p is not None and sampling.top_p < 0.95:
        raise ConfigError("model.sampling.top_p: with thinking the API only accepts 0.95 to 1; set it to null")


def _turns(messages: Sequence[Message], native: bool) -> list[dict[str, Any]]:
    """The request's messages: users and assistants alternate, and tool results precede texts within a turn."""
    turns: list[dict[str, Any]] = []
    for message in messages:
        if message.role == "system" or not (blocks := _blocks(message, native)):
            continue
        role = "assistant" if message.role == "assistant" else "user"
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        else:
            turns.append({"role": role, "content": blocks})
    for turn in turns:
        if turn["role"] == "user":
            turn["content"].sort(key=lambda block: block["type"] != "tool_result")
    return turns


def _blocks(message: Message, native: bool) -> list[dict[str, Any]]:
    """A new list of the message's content blocks."""
    if message.role == "tool":
        return [_tool_result(message)]
    if message.role == "user" or not native:
        return _text(message.content)
    if stored := items(message.provider_fields.get(FIELD)):
        return _sendable(stored)
    calls = [
        {
            "type": "tool_use",
            "id": sendable_id(call.id),
            "name": sendable_name(call.name),
            "input": call.arguments,
        }
        for call in message.tool_calls
    ]
    return _text(message.content) + calls


def _text(content: str) -> list[dict[str, Any]]:
    """A text block, or none for blank text, which the API refuses."""
    return [{"type": "text", "text": content}] if content.strip() else []


def _tool_result(message: Message) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": sendable_id(message.tool_call_id)}
    if message.content.strip():
        block["content"] = message.content
    if any(not result.ok for result in message.results):
        block["is_error"] = True
    return block


def _sendable(stored: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Stored blocks without those that the API returns but does not accept: blank texts, and trailing thinking."""
    blocks = [block for block in stored if block.get("type") != "text" or text(block.get("text")).strip()]
    while blocks and blocks[-1].get("type") in _THINKING:
        blocks.pop()
    return blocks


def _tool(schema: Mapping[str, Any]) -> dict[str, Any]:
    tool = function(schema)
    described = {"description": tool.description} if tool.description else {}
    return {"name": tool.name, **described, "input_schema": tool.parameters}


def _mark_cache(body: dict[str, Any]) -> None:
    """Marks what the next request will share: the tools, the system prompt, and everything up to the last user turn."""
    turns = [turn["content"] for turn in body["messages"] if turn["role"] == "user"]
    for blocks in (body.get("tools"), body.get("system"), turns[-1] if turns else None):
        if isinstance(blocks, list) and blocks:
            blocks[-1] = blocks[-1] | {"cache_control": _EPHEMERAL}


def _take_calls(blocks: list[dict[str, Any]], sent: Sequence[Message], *, is_cut: bool) -> list[ToolCall]:
    """Reads the calls in `blocks`, and fixes those that the API would not accept back."""
    asked = [block for block in blocks if block.get("type") == "tool_use"]
    calls = []
    for block, call_id in zip(asked, own_ids([text(block.get("id")) for block in asked], sent), strict=True):
        name, arguments = text(block.get("name")), block.get("input")
        calls.append(_call(call_id, name, arguments, is_cut=is_cut and block is blocks[-1]))
        block["id"], block["name"] = call_id, sendable_name(name)
        block["input"] = arguments if isinstance(arguments, Mapping) else {}
    return calls


def _call(call_id: str, name: str, arguments: object, *, is_cut: bool) -> ToolCall:
    if is_cut:
        return cut_call(call_id, name, arguments)
    if not isinstance(arguments, Mapping):
        return broken_call(call_id, name, arguments, f"arguments must be a JSON object, not {kind(arguments)}")
    return read_call(call_id, name, arguments, {})


def _reasoning(blocks: Sequence[Mapping[str, Any]]) -> str:
    thoughts = [text(block.get("thinking")) for block in blocks if block.get("type") == "thinking"]
    return "\n\n".join(thought for thought in thoughts if thought)


def _usage(usage: Mapping[str, Any]) -> Usage:
    cached, written = count(usage.get("cache_read_input_tokens")), count(usage.get("cache_creation_input_tokens"))
    prompt = count(usage.get("input_tokens")) + cached + written
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=count(usage.get("output_tokens")),
        cached_tokens=cached,
        cache_write_tokens=written,
        reasoning_tokens=count(mapping(usage.get("output_tokens_details")).get("thinking_tokens")),
        uncounted=int(not prompt),
    )


def _raise_error(reply: Mapping[str, Any]) -> None:
    """Raises `Refused` for an error that a retry does not fix, else `Failed`, if the reply is an error."""
    is_own_form = isinstance(reply.get("error"), Mapping)
    if not is_own_form and not isinstance(reply.get("content"), list) and (found := failure_of(reply)):
        raise found  # an error in a proxy's format
    if not is_own_form and reply.get("type") != "error":
        return
    error = mapping(reply.get("error"))
    word = text(error.get("type"))
    message = " ".join(f"{text(error.get('message')) or 'an error without a message'} ({word or 'no type'})".split())
    if word in _STATUS:
        raise Refused(message, _STATUS[word])
    raise Failed(message)


class _Stream:
    """Joins the events of a stream."""

    def __init__(self) -> None:
        self._message: dict[str, Any] = {}
        self._blocks: list[_Block] = []
        self._open: dict[object, _Block] = {}
        self._stopped = False

    def add(self, event: Mapping[str, Any]) -> None:
        """Adds one event; unknown ones are ignored."""
        match event.get("type"):
            case "message_start":
                self._message = dict(mapping(event.get("message")))
            case "content_block_start":
                self._begin(event.get("index"), mapping(event.get("content_block")))
            case "content_block_delta":
                self._grow(event.get("index"), mapping(event.get("delta")))
            case "message_delta":
                self._message |= _told(event.get("delta"))
                self._message["usage"] = dict(mapping(self._message.get("usage"))) | _told(event.get("usage"))
            case "message_stop":
                self._stopped = True

    def reply(self) -> dict[str, Any]:
        """The whole reply, or an error if the stream ended early."""
        if not self._stopped:
            message = "the stream ended before message_stop"
            return {"type": "error", "error": {"type": "api_error", "message": message}}
        return self._message | {"content": [block.finished() for block in self._blocks]}

    def _begin(self, index: object, start: Mapping[str, Any]) -> "_Block":
        block = _Block(start)
        self._blocks.append(block)
        self._open[_key(index)] = block
        return block

    def _grow(self, index: object, delta: Mapping[str, Any]) -> None:
        how = text(delta.get("type"))
        if how not in _OWNER:
            return
        block = self._open.get(_key(index))
        if block is None:  # its start event is missing, but its text is usable
            block = self._begin(index, {"type": _OWNER[how]})
        block.add(how, delta)


class _Block:
    """A content block of a stream, with its deltas so far."""

    def __init__(self, start: Mapping[str, Any]) -> None:
        self._start = start
        self._added: dict[str, list[str]] = {}
        self._signature = ""

    def add(self, how: str, delta: Mapping[str, Any]) -> None:
        """Adds a delta of that type."""
        if how == "signature_delta":
            self._signature = text(delta.get("signature"))  # sent whole each time
            return
        field = {"text_delta": "text", "thinking_delta": "thinking"}.get(how, "partial_json")
        self._added.setdefault(field, []).append(text(delta.get(field)))

    def finished(self) -> dict[str, Any]:
        """The complete block."""
        block = dict(self._start)
        for field in ("text", "thinking"):
            if field in self._added:
                block[field] = text(block.get(field)) + "".join(self._added[field])
        if self._signature:
            block["signature"] = self._signature
        if written := "".join(self._added.get("partial_json", ())):
            block["input"] = _input(written)
        return block


def _told(fields: object) -> dict[str, Any]:
    return {key: value for key, value in mapping(fields).items() if value is not None}


def _key(index: object) -> object:
    return index if isinstance(index, int | str) else None


def _input(written: str) -> object:
    """The input of a call. Invalid JSON stays a string, so that it is rejected as not an object."""
    try:
        return decode_json(written.encode(errors="replace"))
    except ModelError:
        return written
