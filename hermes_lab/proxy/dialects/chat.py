"""OpenAI chat completions."""

import time
from collections.abc import Mapping
from typing import Any

from hermes_lab.models.wires.calls import read_call
from hermes_lab.models.wires.loose import items, mapping, text
from hermes_lab.proxy.dialects.parts import (
    Parts,
    as_json,
    function_schema,
    new_id,
    result_message,
    sse,
    written_arguments,
)
from hermes_lab.proxy.exchange import Asked
from hermes_lab.types import Generation, Message, ToolCall, Usage

_REASONING = ("reasoning_content", "reasoning")
_ENDINGS = {"length": "length", "content_filter": "content_filter"}


class ChatDialect:
    """See `Dialect`."""

    name = "chat"
    provider = "openai"
    ending = "/chat/completions"

    def read(self, body: Mapping[str, Any]) -> Asked:
        """See `Dialect.read`."""
        if not isinstance(body.get("messages"), list):
            raise ValueError("a chat completion needs `messages`, a list")
        parts, calls = Parts(), list[ToolCall]()
        messages = []
        for row in map(mapping, body["messages"]):
            message = _message(row, parts, calls)
            calls += message.tool_calls
            messages.append(message)
        tools = [mapping(mapping(tool).get("function")) for tool in items(body.get("tools"))]
        schemas = tuple(
            function_schema(tool.get("name"), tool.get("description"), tool.get("parameters"))
            for tool in tools
            if tool.get("name")
        )
        return Asked(tuple(messages), schemas, body.get("stream") is True, parts.lost)

    def reply(self, generation: Generation, request: Mapping[str, Any]) -> dict[str, Any]:
        """See `Dialect.reply`."""
        said, ending = _said(generation)
        choice = {"index": 0, "message": {"role": "assistant", **said}, "finish_reason": ending}
        return {**_head(request, "chat.completion"), "choices": [choice], "usage": _usage(generation.usage)}

    def events(self, generation: Generation, request: Mapping[str, Any]) -> bytes:
        """See `Dialect.events`."""
        said, ending = _said(generation)
        head = _head(request, "chat.completion.chunk")
        for index, call in enumerate(said.get("tool_calls", ())):
            call["index"] = index
        deltas: tuple[dict[str, Any], ...] = ({"role": "assistant", **said}, {})
        chunks: list[tuple[str, object]] = [
            ("", {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None if delta else ending}]})
            for delta in deltas
        ]
        if mapping(request.get("stream_options")).get("include_usage"):
            chunks.append(("", {**head, "choices": [], "usage": _usage(generation.usage)}))
        return sse([*chunks, ("", "[DONE]")], named=False)

    def error(self, status: int, message: str, *, too_long: bool = False) -> dict[str, Any]:
        """See `Dialect.error`."""
        return openai_error(status, message, too_long=too_long)

    def broken_off(self, status: int, message: str, *, too_long: bool = False) -> bytes:
        """See `Dialect.broken_off`."""
        return sse([("", self.error(status, message, too_long=too_long))], named=False)

    def ping(self) -> bytes:
        """See `Dialect.ping`."""
        return b": waiting\n\n"


def openai_error(status: int, message: str, *, too_long: bool) -> dict[str, Any]:
    """An error as OpenAI's interfaces have it."""
    kind = "invalid_request_error" if status < 500 and status != 429 else "server_error"
    if too_long:
        message = f"This model's maximum context length is exceeded. {message}"
    return {"error": {"message": message, "type": kind, "code": "context_length_exceeded" if too_long else None}}


def _message(row: Mapping[str, Any], parts: Parts, calls: list[ToolCall]) -> Message:
    role, content = text(row.get("role")), parts.text(row.get("content"))
    if role in ("tool", "function"):
        return result_message(text(row.get("tool_call_id")) or text(row.get("name")), content, calls)
    if role == "assistant":
        return Message(
            role="assistant",
            content=content,
            tool_calls=tuple(_call(mapping(call)) for call in items(row.get("tool_calls"))),
            reasoning=next((found for name in _REASONING if (found := text(row.get(name)))), ""),
        )
    if role in ("system", "developer"):
        return Message(role="system", content=content)
    return Message(role="user", content=content if role == "user" else as_json(row))


def _call(call: Mapping[str, Any]) -> ToolCall:
    function = mapping(call.get("function")) or call
    return read_call(text(call.get("id")), text(function.get("name")), function.get("arguments"), {})


def _said(generation: Generation) -> tuple[dict[str, Any], str]:
    message = generation.message
    said: dict[str, Any] = {"content": message.content or (None if message.tool_calls else "")}
    if message.reasoning:
        said["reasoning_content"] = message.reasoning
    if message.tool_calls:
        said["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": written_arguments(call)}}
            for call in message.tool_calls
        ]
    default = "tool_calls" if message.tool_calls else "stop"
    return said, _ENDINGS.get(generation.finish_reason, default)


def _head(request: Mapping[str, Any], kind: str) -> dict[str, Any]:
    model = text(request.get("model"))
    return {"id": new_id("chatcmpl-"), "object": kind, "created": int(time.time()), "model": model}


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }
