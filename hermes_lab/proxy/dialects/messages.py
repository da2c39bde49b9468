"""Anthropic Messages."""

from collections.abc import Mapping
from typing import Any

from hermes_lab.models.wires.calls import read_call
from hermes_lab.models.wires.loose import items, mapping, text
from hermes_lab.proxy.dialects.parts import Parts, as_json, function_schema, new_id, result_message, sse
from hermes_lab.proxy.exchange import Asked
from hermes_lab.types import Generation, Message, ToolCall, Usage

_ENDINGS = {"length": "max_tokens", "content_filter": "refusal", "refusal": "refusal"}
_UNREADABLE = "unreadable_tool_call"
"""The name under which a call that could not be read is written."""
_KINDS = {400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}


class MessagesDialect:
    """See `Dialect`.

    The input of a call is always an object, so a call that could not be read has no form here. It is written as a call
    of a tool that no program has: the program refuses it, where it might run an empty input.
    """

    name = "messages"
    provider = "anthropic"
    ending = "/messages"

    def read(self, body: Mapping[str, Any]) -> Asked:
        """See `Dialect.read`. Tool results come before the texts of their turn, as a message each."""
        if not isinstance(body.get("messages"), list):
            raise ValueError("a message needs `messages`, a list")
        parts = Parts()
        messages: list[Message] = []
        if system := parts.text(body.get("system")):
            messages.append(Message(role="system", content=system))
        calls: list[ToolCall] = []
        for row in map(mapping, body["messages"]):
            content = row.get("content")
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else items(content)
            if row.get("role") == "assistant":
                message = _assistant(blocks, parts)
                calls += message.tool_calls
                messages.append(message)
                continue
            results = [block for block in map(mapping, blocks) if block.get("type") == "tool_result"]
            for block in results:
                told, ok = parts.text(block.get("content")), block.get("is_error") is not True
                messages.append(result_message(text(block.get("tool_use_id")), told, calls, ok=ok))
            if others := [block for block in blocks if mapping(block).get("type") != "tool_result"]:
                told = parts.text(others)
                messages.append(Message(role="system" if row.get("role") == "system" else "user", content=told))
        tools = [mapping(tool) for tool in items(body.get("tools"))]
        schemas = tuple(
            function_schema(tool.get("name"), tool.get("description"), tool.get("input_schema"))
            for tool in tools
            if tool.get("name") and "input_schema" in tool  # others run at Anthropic, such as web search
        )
        return Asked(tuple(messages), schemas, body.get("stream") is True, parts.lost)

    def reply(self, generation: Generation, request: Mapping[str, Any]) -> dict[str, Any]:
        """See `Dialect.reply`."""
        default = "tool_use" if generation.message.tool_calls else "end_turn"
        return {
            "id": new_id("msg_"),
            "type": "message",
            "role": "assistant",
            "model": text(request.get("model")),
            "content": _blocks(generation.message),
            "stop_reason": _ENDINGS.get(generation.finish_reason, default),
            "stop_sequence": None,
            "usage": _usage(generation.usage),
        }

    def events(self, generation: Generation, request: Mapping[str, Any]) -> bytes:
        """See `Dialect.events`."""
        reply = self.reply(generation, request)
        started = {**reply, "content": [], "stop_reason": None, "usage": {**reply["usage"], "output_tokens": 0}}
        events: list[tuple[str, object]] = [("message_start", {"type": "message_start", "message": started})]
        for index, block in enumerate(reply["content"]):
            events += _block_events(index, block)
        ended = {"stop_reason": reply["stop_reason"], "stop_sequence": None}
        events.append(("message_delta", {"type": "message_delta", "delta": ended, "usage": reply["usage"]}))
        events.append(("message_stop", {"type": "message_stop"}))
        return sse(events, named=True)

    def error(self, status: int, message: str, *, too_long: bool = False) -> dict[str, Any]:
        """See `Dialect.error`."""
        said = f"prompt is too long: {message}" if too_long else message
        return {"type": "error", "error": {"type": _KINDS.get(status, "api_error"), "message": said}}

    def broken_off(self, status: int, message: str, *, too_long: bool = False) -> bytes:
        """See `Dialect.broken_off`."""
        return sse([("error", self.error(status, message, too_long=too_long))], named=True)

    def ping(self) -> bytes:
        """See `Dialect.ping`."""
        return sse([("ping", {"type": "ping"})], named=True)


def _assistant(blocks: list[Any], parts: Parts) -> Message:
    calls = [block for block in map(mapping, blocks) if block.get("type") == "tool_use"]
    thoughts = [text(block.get("thinking")) for block in map(mapping, blocks) if block.get("type") == "thinking"]
    return Message(
        role="assistant",
        content=parts.text([block for block in blocks if mapping(block).get("type") != "tool_use"]),
        tool_calls=tuple(map(_read_call, calls)),
        reasoning="\n\n".join(filter(None, thoughts)),
    )


def _read_call(block: Mapping[str, Any]) -> ToolCall:
    call_id, name, given = text(block.get("id")), text(block.get("name")), block.get("input")
    if name == _UNREADABLE:
        known = mapping(given)
        return ToolCall(
            call_id, text(known.get("tool")), error=text(known.get("error")), raw=text(known.get("arguments"))
        )
    return read_call(call_id, name, given, {})


def _block(call: ToolCall) -> dict[str, Any]:
    name, given = call.name, call.arguments
    if call.error:
        name, given = _UNREADABLE, {"tool": call.name, "arguments": call.raw, "error": call.error}
    return {"type": "tool_use", "id": call.id, "name": name, "input": given}


def _blocks(message: Message) -> list[dict[str, Any]]:
    """The content. Thoughts are left out: only Anthropic can sign them."""
    said = [{"type": "text", "text": message.content}] if message.content or not message.tool_calls else []
    return said + [_block(call) for call in message.tool_calls]


def _block_events(index: int, block: dict[str, Any]) -> list[tuple[str, object]]:
    if block["type"] == "text":
        empty: dict[str, Any] = {**block, "text": ""}
        delta = {"type": "text_delta", "text": block["text"]}
    else:
        empty = {**block, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": as_json(block["input"])}
    return [
        ("content_block_start", {"type": "content_block_start", "index": index, "content_block": empty}),
        ("content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}),
        ("content_block_stop", {"type": "content_block_stop", "index": index}),
    ]


def _usage(usage: Usage) -> dict[str, Any]:
    plain = max(usage.prompt_tokens - usage.cached_tokens - usage.cache_write_tokens, 0)
    return {
        "input_tokens": plain,
        "cache_read_input_tokens": usage.cached_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "output_tokens": usage.completion_tokens,
    }
