"""A fake of the OpenAI Responses API on loopback that refuses what the real one refuses, in its words and shape.

    async with FakeResponsesServer(["hello"]) as server: ...

What it checks is written from the API's public documentation and the errors that users of the API report. It stores
nothing: with `store: true` it would have to.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from fakes.api_server import KEY, ApiServer, Refusal, pieces_of, seal

_FIELDS = frozenset(
    {"model", "input", "instructions", "include", "max_output_tokens", "max_tool_calls", "metadata", "store", "stream"}
    | {"parallel_tool_calls", "previous_response_id", "prompt", "prompt_cache_key", "reasoning", "safety_identifier"}
    | {"service_tier", "stream_options", "temperature", "text", "tool_choice", "tools", "top_logprobs", "top_p", "user"}
    | {"background", "truncation"}
)
_ITEMS = {
    "message": {"type", "id", "role", "content", "status", "phase"},
    "function_call": {"type", "id", "call_id", "name", "arguments", "status"},
    "function_call_output": {"type", "id", "call_id", "output", "status"},
    "reasoning": {"type", "id", "summary", "content", "encrypted_content", "status"},
}
_PARTS = {
    "input_text": {"type", "text"},
    "output_text": {"type", "text", "annotations", "logprobs"},
    "refusal": {"type", "refusal"},
}
_INCLUDABLE = ("reasoning.encrypted_content", "message.output_text.logprobs", "web_search_call.action.sources")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_INVALID = "invalid_request_error"


@dataclass(frozen=True)
class Reply:
    """One scripted answer: output items, and how it ends. A `body` is sent as it stands, with `http`; `events` are sent
    in place of those that a stream of the items would have. `hollow`: the last event of a stream has no output, as that
    of the ChatGPT backend."""

    items: Sequence[dict[str, Any]] = ()
    status: str | None = "completed"
    reason: str = ""
    error: Mapping[str, Any] | None = None
    usage: Mapping[str, Any] = field(default_factory=dict)
    http: int = 200
    body: object = None
    events: Sequence[dict[str, Any]] | None = None
    hollow: bool = False


Script = Sequence[str | Reply] | Callable[[dict[str, Any]], str | Reply]


def message(content: str, **fields: object) -> dict[str, Any]:
    part = {"type": "output_text", "text": content, "annotations": [], "logprobs": []}
    return _message([part], content) | fields


def refusal(content: str) -> dict[str, Any]:
    return _message([{"type": "refusal", "refusal": content}], content)


def _message(content: list[dict[str, Any]], seed: str) -> dict[str, Any]:
    shown = {"status": "completed", "role": "assistant", "content": content}
    return {"type": "message", "id": f"msg_{seal(seed)[:12]}", **shown}


def reasoning(content: str, *, summary: str = "") -> dict[str, Any]:
    told = [{"type": "summary_text", "text": summary}] if summary else []
    sealed = f"{content.encode().hex()}.{seal(content)}"
    return {"type": "reasoning", "id": f"rs_{seal(content)[:12]}", "summary": told, "encrypted_content": sealed}


def function_call(call_id: str, name: str, arguments: object) -> dict[str, Any]:
    written = arguments if isinstance(arguments, str) else json.dumps(arguments)
    call = {"call_id": call_id, "name": name, "arguments": written, "status": "completed"}
    return {"type": "function_call", "id": f"fc_{seal(call_id)[:12]}", **call}


class FakeResponsesServer(ApiServer):
    """Replies with the items of `script` in order, repeating the last one, or with a function of the request's body."""

    path = "/responses"

    def __init__(self, script: Script, *, models: Sequence[str] = ("gpt-fake",), split: int = 0) -> None:
        super().__init__(split=split)
        self.script = script
        self.served = models
        self._issued: list[Sequence[dict[str, Any]]] = []

    def error(self, refusal: Refusal) -> dict[str, Any]:
        code = refusal.kind or None
        return {"error": {"message": refusal.message, "type": _INVALID, "param": refusal.param, "code": code}}

    async def models(self, request: web.Request) -> web.StreamResponse:
        _check_headers(request.headers)
        data = [{"id": name, "object": "model", "created": 1, "owned_by": "fake"} for name in self.served]
        return web.json_response({"object": "list", "data": data})

    async def create(self, request: web.Request) -> web.StreamResponse:
        _check_headers(request.headers)
        body = await request.json()
        self.requests.append(body)
        check(body, self.served, self._issued)
        reply = self.next_of(self.script, body)
        reply = Reply([message(reply)]) if isinstance(reply, str) else reply
        if reply.body is not None or reply.http != 200:
            return web.json_response(reply.body, status=reply.http)
        self._issued.append(reply.items)
        answer = response(body, reply, len(self._issued))
        if body.get("stream"):
            events = list(stream(answer, hollow=reply.hollow)) if reply.events is None else reply.events
            return await self.send_events(request, events)
        return web.json_response(answer)


def response(body: Mapping[str, Any], reply: Reply, number: int) -> dict[str, Any]:
    """A reply in the API's format."""
    hidden = "reasoning.encrypted_content" not in body.get("include", [])
    output = [{k: v for k, v in item.items() if not (hidden and k == "encrypted_content")} for item in reply.items]
    usage = {
        "input_tokens": len(json.dumps(body)),
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": len(json.dumps(output)),
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    return {
        "id": f"resp_{number:03d}",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": reply.status,
        "error": reply.error,
        "incomplete_details": {"reason": reply.reason} if reply.reason else None,
        "instructions": body.get("instructions"),
        "model": body["model"],
        "output": output,
        "parallel_tool_calls": True,
        "store": False,
        "usage": usage | dict(reply.usage),
    }


def stream(answer: Mapping[str, Any], *, hollow: bool = False) -> Iterator[dict[str, Any]]:
    """A reply as the API streams it."""
    for number, event in enumerate(_events(answer, hollow)):
        yield {**event, "sequence_number": number}


def _events(answer: Mapping[str, Any], hollow: bool) -> Iterator[dict[str, Any]]:
    begun = {**answer, "status": "in_progress", "output": [], "usage": None, "error": None}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(answer["output"]):
        at = {"output_index": index}
        yield {"type": "response.output_item.added", **at, "item": {**item, "status": "in_progress"}}
        yield from _deltas(item, {**at, "item_id": item["id"]})
        yield {"type": "response.output_item.done", **at, "item": item}
    last = {**answer, "output": []} if hollow else answer
    yield {"type": f"response.{answer['status']}", "response": last}


def _deltas(item: Mapping[str, Any], at: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    if item["type"] == "function_call":
        for part in pieces_of(item["arguments"]):
            yield {"type": "response.function_call_arguments.delta", **at, "delta": part}
        yield {"type": "response.function_call_arguments.done", **at, "arguments": item["arguments"]}
    for index, part in enumerate(item.get("summary", [])):
        where = {**at, "summary_index": index}
        yield {"type": "response.reasoning_summary_part.added", **where, "part": {**part, "text": ""}}
        for piece in pieces_of(part["text"]):
            yield {"type": "response.reasoning_summary_text.delta", **where, "delta": piece}
    for index, part in enumerate(item.get("content", [])):
        if part["type"] == "refusal":
            for piece in pieces_of(part["refusal"]):
                yield {"type": "response.refusal.delta", **at, "content_index": index, "delta": piece}
        if part["type"] == "output_text":
            for piece in pieces_of(part["text"]):
                yield {"type": "response.output_text.delta", **at, "content_index": index, "delta": piece}


def check(body: Mapping[str, Any], served: Sequence[str], issued: Sequence[Sequence[dict[str, Any]]]) -> None:
    """Raises a `Refusal` for requests that the API rejects. `issued` are the outputs of earlier replies."""
    _known(body, _FIELDS, "")
    _require("model" in body, "model", "Missing required parameter: 'model'.", "missing_required_parameter")
    if body["model"] not in served:
        raise Refusal(400, "model_not_found", f"The requested model '{body['model']}' does not exist.", "model")
    if body.get("previous_response_id"):
        gone = f"Previous response with id '{body['previous_response_id']}' not found."
        _refuse("previous_response_id", gone, "previous_response_not_found")
    _check_sampling(body)
    for index, tool in enumerate(body.get("tools", [])):
        _check_tool(tool, f"tools[{index}]")
    sent = body.get("input", [])
    for index, item in enumerate([{"role": "user", "content": sent}] if isinstance(sent, str) else sent):
        _check_item(item, f"input[{index}]", bool(body.get("store", True)))
    if not isinstance(sent, str):
        _check_calls(sent)
        _check_reasoning(sent, issued)


def _check_headers(headers: Mapping[str, str]) -> None:
    sent = headers.get("Authorization", "")
    if not sent.startswith("Bearer "):
        raise Refusal(401, "", "You didn't provide an API key.")
    if sent != f"Bearer {KEY}":
        raise Refusal(401, "invalid_api_key", "Incorrect API key provided.")


def _check_sampling(body: Mapping[str, Any]) -> None:
    limit = body.get("max_output_tokens", 16)
    below = (
        f"Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got {limit} instead."
    )
    _require(type(limit) is int and limit >= 16, "max_output_tokens", below, "integer_below_min_value")
    for name, most in (("temperature", 2), ("top_p", 1)):
        value = body.get(name, 1)
        above = f"Invalid '{name}': decimal out of range. Expected a value between 0 and {most}."
        _require(type(value) in (int, float) and 0 <= value <= most, name, above, "decimal_above_max_value")
    reasoning = body.get("reasoning", {})
    _known(reasoning, {"effort", "summary", "generate_summary", "context", "mode"}, "reasoning.")
    _require(reasoning.get("effort", "low") in _EFFORTS, "reasoning.effort", "Invalid value: 'reasoning.effort'.")
    for value in body.get("include", []):
        _require(value in _INCLUDABLE, "include", f"Invalid value: '{value}'.", "invalid_value")


def _check_tool(tool: Mapping[str, Any], at: str) -> None:
    _known(tool, {"type", "name", "description", "parameters", "strict"}, f"{at}.")
    for name in ("type", "name", "parameters"):
        _require(
            name in tool, f"{at}.{name}", f"Missing required parameter: '{at}.{name}'.", "missing_required_parameter"
        )
    pattern = f"Invalid '{at}.name': string does not match pattern. Expected a string that matches '^[a-zA-Z0-9_-]+$'."
    _require(_NAME.fullmatch(tool["name"]), f"{at}.name", pattern, "invalid_value")
    if tool.get("strict", True):
        closed = tool["parameters"].get("additionalProperties") is False
        wrong = f"Invalid schema for function '{tool['name']}': 'additionalProperties' is required to be false."
        _require(closed, f"{at}.parameters", wrong, "invalid_function_parameters")


def _check_item(item: Mapping[str, Any], at: str, stored: bool) -> None:
    kind = item.get("type", "message")
    _require(kind in _ITEMS, at, f"Invalid value: '{kind}'.", "invalid_value")
    _known(item, _ITEMS[kind], f"{at}.")
    if "status" in item and item["status"] not in ("in_progress", "completed", "incomplete"):
        expected = "expected one of 'in_progress', 'completed', or 'incomplete'"
        _refuse(f"{at}.status", f"Invalid type for '{at}.status': {expected}.", "invalid_type")
    needed = {
        "message": ("role", "content"),
        "function_call": ("call_id", "name", "arguments"),
        "function_call_output": ("call_id", "output"),
        "reasoning": ("id", "summary"),
    }[kind]
    for name in needed:
        _require(
            name in item, f"{at}.{name}", f"Missing required parameter: '{at}.{name}'.", "missing_required_parameter"
        )
    if kind == "message":
        _check_content(item, at)
    elif kind == "reasoning":
        _check_encrypted(item, stored)
    else:
        _check_call_item(item, kind, at)


def _check_content(item: Mapping[str, Any], at: str) -> None:
    roles = ("user", "assistant", "system", "developer")
    _require(item["role"] in roles, f"{at}.role", f"Invalid value: '{item['role']}'.", "invalid_value")
    if isinstance(item["content"], str):
        return
    allowed = ("output_text", "refusal") if item["role"] == "assistant" else ("input_text",)
    for index, part in enumerate(item["content"]):
        where = f"{at}.content[{index}]"
        _require(part.get("type") in allowed, where, f"Invalid value: '{part.get('type')}'.", "invalid_value")
        _known(part, _PARTS[part["type"]], f"{where}.")


def _check_encrypted(item: Mapping[str, Any], stored: bool) -> None:
    sealed = item.get("encrypted_content")
    if sealed is None:
        kept = "Items are not persisted when `store` is set to false."
        advice = "Try again with `store` set to true, or remove this item from your input."
        raise Refusal(404, "", f"Item with id '{item['id']}' not found. {'' if stored else kept} {advice}", "input")
    content, _, seal_of_it = sealed.partition(".")
    try:
        sound = seal(bytes.fromhex(content).decode()) == seal_of_it
    except ValueError:
        sound = False
    _require(
        sound, "input", f"The encrypted content {sealed[:4]}... could not be verified.", "invalid_encrypted_content"
    )


def _check_call_item(item: Mapping[str, Any], kind: str, at: str) -> None:
    long = f"Invalid '{at}.call_id': string too long. Expected a string with maximum length 64."
    _require(1 <= len(item["call_id"]) <= 64, f"{at}.call_id", long, "string_above_max_length")
    written = "arguments" if kind == "function_call" else "output"
    _require(isinstance(item[written], str), f"{at}.{written}", f"Invalid type for '{at}.{written}'.", "invalid_type")
    if kind == "function_call":
        pattern = f"Invalid '{at}.name': string does not match pattern."
        _require(_NAME.fullmatch(item["name"]), f"{at}.name", pattern, "invalid_value")


def _check_calls(sent: Sequence[Mapping[str, Any]]) -> None:
    """Checks that each output comes after its call, and each call has one."""
    asked: set[str] = set()
    answered: set[str] = set()
    for item in sent:
        if item.get("type") == "function_call":
            asked.add(item["call_id"])
        if item.get("type") == "function_call_output":
            unknown = f"No tool call found for function call output with call_id {item['call_id']}."
            _require(item["call_id"] in asked, "input", unknown)
            answered.add(item["call_id"])
    for call_id in sorted(asked - answered):
        _refuse("input", f"No tool output found for function call {call_id}.")


def _check_reasoning(sent: Sequence[Mapping[str, Any]], issued: Sequence[Sequence[dict[str, Any]]]) -> None:
    """Checks that each reasoning item is directly before the item that it led to."""
    pairs = [pair for output in issued for pair in _pairs(output)]
    there = _pairs(sent)
    for reason, following in there:
        known = [after for before, after in pairs if before == reason]
        if not following or (known and following not in known):
            _refuse("input", f"Item '{reason}' of type 'reasoning' was provided without its required following item.")
    for reason, following in pairs:
        kind = next((item["type"] for item in sent if item.get("id") == following), "")
        if kind and (reason, following) not in there:
            needs = f"was provided without its required 'reasoning' item: '{reason}'."
            _refuse("input", f"Item '{following}' of type '{kind}' {needs}")


def _pairs(items: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """The ids of each reasoning item and of the item after it; "" for items that the model did not write."""
    pairs = []
    for index, item in enumerate(items):
        if item.get("type") == "reasoning":
            after = items[index + 1] if index + 1 < len(items) else {}
            pairs.append((item["id"], after.get("id", "")))
    return pairs


def _known(fields: Mapping[str, Any], known: frozenset[str] | set[str], at: str) -> None:
    for name in sorted(set(fields) - known):
        _refuse(f"{at}{name}", f"Unknown parameter: '{at}{name}'.", "unknown_parameter")


def _require(holds: object, param: str, message: str, code: str = "") -> None:
    if not holds:
        _refuse(param, message, code)


def _refuse(param: str, message: str, code: str = "") -> None:
    raise Refusal(400, code, message, param)
