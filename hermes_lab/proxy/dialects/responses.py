"""OpenAI Responses."""

import time
from collections.abc import Mapping
from typing import Any

from hermes_lab.models.wires.calls import read_call
from hermes_lab.models.wires.loose import items, mapping, text
from hermes_lab.proxy.dialects.chat import openai_error
from hermes_lab.proxy.dialects.parts import (
    Parts,
    as_json,
    function_schema,
    merged,
    new_id,
    result_message,
    sse,
    written_arguments,
)
from hermes_lab.proxy.exchange import Asked
from hermes_lab.types import Generation, Message, ToolCall, Usage

_CALLS = frozenset({"function_call", "custom_tool_call", "local_shell_call"})
_RESULTS = frozenset({"function_call_output", "custom_tool_call_output", "local_shell_call_output"})
_INPUT = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
"""The parameters of a custom tool, which takes a text."""


class ResponsesDialect:
    """See `Dialect`."""

    name = "responses"
    provider = "responses"
    ending = "/responses"

    def read(self, body: Mapping[str, Any]) -> Asked:
        """See `Dialect.read`."""
        given = body.get("input")
        if not isinstance(given, list | str):
            raise ValueError("a response needs `input`, a text or a list")
        parts, calls = Parts(), list[ToolCall]()
        messages: list[Message] = []
        if instructions := text(body.get("instructions")):
            messages.append(Message(role="system", content=instructions))
        for item in map(mapping, [{"role": "user", "content": given}] if isinstance(given, str) else given):
            if (message := _message(item, parts, calls)) is not None:
                calls += message.tool_calls
                messages.append(message)
        schemas = tuple(schema for tool in map(mapping, items(body.get("tools"))) if (schema := _schema(tool)))
        return Asked(tuple(merged(messages)), schemas, body.get("stream") is True, parts.lost)

    def reply(self, generation: Generation, request: Mapping[str, Any]) -> dict[str, Any]:
        """See `Dialect.reply`."""
        cut = generation.finish_reason in ("length", "content_filter")
        reason = "max_output_tokens" if generation.finish_reason == "length" else "content_filter"
        return {
            **_head(request),
            "status": "incomplete" if cut else "completed",
            "incomplete_details": {"reason": reason} if cut else None,
            "output": _output(generation.message, _custom_tools(request)),
            "usage": _usage(generation.usage),
        }

    def events(self, generation: Generation, request: Mapping[str, Any]) -> bytes:
        """See `Dialect.events`."""
        reply = self.reply(generation, request)
        begun = {**reply, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
        told: list[dict[str, Any]] = [{"type": "response.created", "response": begun}]
        for index, item in enumerate(reply["output"]):
            told += _item_events(index, item)
        told.append({"type": f"response.{reply['status']}", "response": reply})
        numbered = ({**event, "sequence_number": number} for number, event in enumerate(told))
        return sse([(str(event["type"]), event) for event in numbered], named=True)

    def error(self, status: int, message: str, *, too_long: bool = False) -> dict[str, Any]:
        """See `Dialect.error`."""
        return openai_error(status, message, too_long=too_long)

    def broken_off(self, status: int, message: str, *, too_long: bool = False) -> bytes:
        """See `Dialect.broken_off`."""
        error = self.error(status, message, too_long=too_long)["error"]
        told = {"code": error["code"] or error["type"], "message": error["message"]}
        failed = {"id": new_id("resp_"), "object": "response", "status": "failed", "error": told, "output": []}
        event = {"type": "response.failed", "sequence_number": 0, "response": failed}
        return sse([("response.failed", event)], named=True)

    def ping(self) -> bytes:
        """See `Dialect.ping`."""
        return b": waiting\n\n"


def _message(item: Mapping[str, Any], parts: Parts, calls: list[ToolCall]) -> Message | None:
    """The message of an input item; None for reasoning, which only its endpoint can read."""
    kind = text(item.get("type")) or "message"
    call_id = text(item.get("call_id")) or text(item.get("id"))
    if kind == "reasoning":
        return None
    if kind == "function_call":
        return Message(
            role="assistant", tool_calls=(read_call(call_id, text(item.get("name")), item.get("arguments"), {}),)
        )
    if kind in _CALLS:
        arguments = {"input": item["input"]} if "input" in item else {"action": item.get("action")}
        return Message(role="assistant", tool_calls=(ToolCall(call_id, text(item.get("name")) or kind, arguments),))
    if kind in _RESULTS:
        return result_message(call_id, parts.text(item.get("output")), calls)
    if kind != "message":
        return Message(role="user", content=as_json(item))
    role, content = text(item.get("role")), parts.text(item.get("content"))
    if role == "assistant":
        return Message(role="assistant", content=content)
    return Message(role="system" if role in ("system", "developer") else "user", content=content)


def _schema(tool: Mapping[str, Any]) -> dict[str, Any] | None:
    """The schema of a tool; None for those that run at OpenAI, such as web search."""
    if tool.get("type") == "custom":
        return function_schema(tool.get("name"), tool.get("description"), _INPUT)
    if tool.get("type") == "function":
        return function_schema(tool.get("name"), tool.get("description"), tool.get("parameters"))
    return None


def _custom_tools(request: Mapping[str, Any]) -> set[str]:
    tools = map(mapping, items(request.get("tools")))
    return {text(tool.get("name")) for tool in tools if tool.get("type") == "custom"}


def _output(message: Message, custom: set[str]) -> list[dict[str, Any]]:
    output: list[dict[str, Any]] = []
    if message.content or not message.tool_calls:
        said = {"type": "output_text", "text": message.content, "annotations": []}
        output.append(
            {"type": "message", "id": new_id("msg_"), "role": "assistant", "status": "completed", "content": [said]}
        )
    for call in message.tool_calls:
        known = {"call_id": call.id, "name": call.name, "status": "completed"}
        if call.name in custom:
            given = written_arguments(call) if call.error else str(call.arguments.get("input", ""))
            output.append({"type": "custom_tool_call", "id": new_id("ctc_"), **known, "input": given})
        else:
            arguments = written_arguments(call)
            output.append({"type": "function_call", "id": new_id("fc_"), **known, "arguments": arguments})
    return output


def _item_events(index: int, item: dict[str, Any]) -> list[dict[str, Any]]:
    at = {"output_index": index, "item_id": item["id"]}
    done = {"type": "response.output_item.done", "output_index": index, "item": item}
    if item["type"] != "message":
        field = "input" if item["type"] == "custom_tool_call" else "arguments"
        kind = "custom_tool_call_input" if field == "input" else "function_call_arguments"
        begun = {**item, field: "", "status": "in_progress"}
        return [
            {"type": "response.output_item.added", "output_index": index, "item": begun},
            {"type": f"response.{kind}.delta", **at, "delta": item[field]},
            {"type": f"response.{kind}.done", **at, field: item[field]},
            done,
        ]
    part = item["content"][0]
    at["content_index"] = 0
    begun = {**item, "content": [], "status": "in_progress"}
    return [
        {"type": "response.output_item.added", "output_index": index, "item": begun},
        {"type": "response.content_part.added", **at, "part": {**part, "text": ""}},
        {"type": "response.output_text.delta", **at, "delta": part["text"]},
        {"type": "response.output_text.done", **at, "text": part["text"]},
        {"type": "response.content_part.done", **at, "part": part},
        done,
    ]


def _head(request: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": new_id("resp_"),
        "object": "response",
        "created_at": int(time.time()),
        "model": text(request.get("model")),
        "error": None,
        "parallel_tool_calls": True,
        "tools": items(request.get("tools")),
        "tool_choice": request.get("tool_choice") or "auto",
    }


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }
