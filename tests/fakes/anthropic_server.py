"""A fake of the Anthropic Messages API on loopback that refuses what the real one refuses, in its words and shape.

    async with FakeAnthropicServer(["hello"]) as server: ...

What it checks is written from the API's public documentation and the errors that users of the API report.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from fakes.api_server import KEY, ApiServer, Refusal, pieces_of, seal

_FIELDS = frozenset(
    {"model", "max_tokens", "messages", "system", "tools", "tool_choice", "temperature", "top_p", "top_k", "stream"}
    | {"stop_sequences", "thinking", "output_config", "metadata", "service_tier", "cache_control", "container"}
)
_BLOCKS = {
    "text": {"type", "text", "cache_control", "citations"},
    "tool_use": {"type", "id", "name", "input", "cache_control", "caller"},
    "tool_result": {"type", "tool_use_id", "content", "is_error", "cache_control"},
    "thinking": {"type", "thinking", "signature"},
    "redacted_thinking": {"type", "data"},
}
_OF_ROLE = {"user": {"text", "tool_result"}, "assistant": {"text", "tool_use", "thinking", "redacted_thinking"}}
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_EFFORTS = ("low", "medium", "high", "xhigh", "max")


@dataclass(frozen=True)
class Reply:
    """One scripted reply: content blocks and a stop reason. A `body` is sent unchanged, with `status`; `events` replace
    the events of the stream."""

    blocks: Sequence[dict[str, Any]] = ()
    stop_reason: str | None = ""
    usage: Mapping[str, Any] = field(default_factory=dict)
    status: int = 200
    body: object = None
    events: Sequence[dict[str, Any]] | None = None


Script = Sequence[str | Reply] | Callable[[dict[str, Any]], str | Reply]


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "text": content}


def thinking(content: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": content, "signature": seal(content)}


def redacted(content: str) -> dict[str, Any]:
    return {"type": "redacted_thinking", "data": f"{content}.{seal(content)}"}


def tool_use(call_id: str, name: str, arguments: object) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


class FakeAnthropicServer(ApiServer):
    """Replies with the items of `script` in order, repeating the last one, or with a function of the request's body."""

    path = "/messages"

    def __init__(self, script: Script, *, models: Sequence[str] = ("claude-fake",), split: int = 0) -> None:
        super().__init__(split=split)
        self.script = script
        self.served = models
        self._issued: list[Sequence[dict[str, Any]]] = []

    def error(self, refusal: Refusal) -> dict[str, Any]:
        return error(refusal.kind, refusal.message)

    async def models(self, request: web.Request) -> web.StreamResponse:
        _check_headers(request.headers)
        data = [
            {"type": "model", "id": name, "display_name": name, "created_at": "2026-01-01T00:00:00Z"}
            for name in self.served
        ]
        ends = {"first_id": self.served[0], "last_id": self.served[-1]}
        return web.json_response({"data": data, "has_more": False, **ends})

    async def create(self, request: web.Request) -> web.StreamResponse:
        _check_headers(request.headers)
        body = await request.json()
        self.requests.append(body)
        check(body, self.served, self._issued)
        reply = self._next(body)
        if reply.body is not None or reply.status != 200:
            return web.json_response(reply.body, status=reply.status)
        self._issued.append(reply.blocks)
        answer = message(body, reply, len(self._issued))
        if body.get("stream"):
            return await self.send_events(request, list(stream(answer)) if reply.events is None else reply.events)
        return web.json_response(answer)

    def _next(self, body: dict[str, Any]) -> Reply:
        reply = self.next_of(self.script, body)
        return Reply([text(reply)]) if isinstance(reply, str) else reply


def error(kind: str, message: str) -> dict[str, Any]:
    """An error in the API's format."""
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


def message(body: Mapping[str, Any], reply: Reply, number: int) -> dict[str, Any]:
    """A reply in the API's format."""
    calls = any(block["type"] == "tool_use" for block in reply.blocks)
    stop_reason = ("tool_use" if calls else "end_turn") if reply.stop_reason == "" else reply.stop_reason
    usage = {
        "input_tokens": len(json.dumps(body)),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": len(json.dumps(list(reply.blocks))),
        "service_tier": "standard",
    }
    return {
        "id": f"msg_{number:03d}",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": list(reply.blocks),
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": usage | dict(reply.usage),
    }


def stream(answer: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A reply as the API streams it."""
    usage = answer["usage"]
    start = {**answer, "content": [], "stop_reason": None, "usage": usage | {"output_tokens": 1}}
    yield {"type": "message_start", "message": start}
    yield {"type": "ping"}
    for index, block in enumerate(answer["content"]):
        begun, deltas = _begun(block)
        yield {"type": "content_block_start", "index": index, "content_block": begun}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ended = {"stop_reason": answer["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": {"output_tokens": usage["output_tokens"]}}
    yield {"type": "message_stop"}


def _begun(block: Mapping[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The start of a block in a stream, and its deltas."""
    if block["type"] == "text":
        return {**block, "text": ""}, [{"type": "text_delta", "text": part} for part in pieces_of(block["text"])]
    if block["type"] == "thinking":
        deltas = [{"type": "thinking_delta", "thinking": part} for part in pieces_of(block["thinking"])]
        return {**block, "thinking": "", "signature": ""}, [
            *deltas,
            {"type": "signature_delta", "signature": block["signature"]},
        ]
    if block["type"] == "tool_use":
        parts = ["", *pieces_of(json.dumps(block["input"], ensure_ascii=False))]
        return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": part} for part in parts]
    return dict(block), []


def check(body: Mapping[str, Any], served: Sequence[str], issued: Sequence[Sequence[dict[str, Any]]]) -> None:
    """Raises a `Refusal` for requests that the API rejects. `issued` are the contents of earlier replies."""
    for name in sorted(set(body) - _FIELDS):
        _refuse(f"{name}: Extra inputs are not permitted")
    for name in ("model", "max_tokens", "messages"):
        _require(name in body, f"{name}: Field required")
    if body["model"] not in served:
        raise Refusal(404, "not_found_error", f"model: {body['model']}")
    _check_sampling(body)
    _check_thinking(body)
    _check_system(body.get("system", "as before"))
    _check_tools(body.get("tools", []))
    turns = _check_messages(body["messages"])
    _check_calls(turns, "tools" in body)
    _check_thoughts(turns, body, issued)
    _check_end(turns)
    _check_cache(body)


def _check_headers(headers: Mapping[str, str]) -> None:
    if "x-api-key" not in headers:
        raise Refusal(401, "authentication_error", "x-api-key header is required")
    if headers["x-api-key"] != KEY:
        raise Refusal(401, "authentication_error", "invalid x-api-key")
    _require("anthropic-version" in headers, "anthropic-version: header is required")
    version = headers["anthropic-version"]
    _require(version == "2023-06-01", f'anthropic-version: "{version}" is not a valid version')


def _check_sampling(body: Mapping[str, Any]) -> None:
    limit = body["max_tokens"]
    _require(type(limit) is int, "max_tokens: Input should be a valid integer")
    _require(limit >= 1, "max_tokens: must be greater than or equal to 1")
    for name in ("temperature", "top_p"):
        if name in body:
            _require(type(body[name]) in (int, float), f"{name}: Input should be a valid number")
            _require(0 <= body[name] <= 1, f"{name}: range: 0..1")
    if "top_k" in body:
        _require(type(body["top_k"]) is int, "top_k: Input should be a valid integer")
        _require(body["top_k"] >= 0, "top_k: Input should be greater than or equal to 0")
    both = "`temperature` and `top_p` cannot both be specified for this model. Please use only one."
    _require(not {"temperature", "top_p"} <= set(body), both)
    for sequence in body.get("stop_sequences", []):
        _require(sequence.strip() != "", "stop_sequences: each stop sequence must contain non-whitespace")
    config = body.get("output_config", {})
    _require(set(config) <= {"effort", "format"}, "output_config: Extra inputs are not permitted")
    wrong = "output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh' or 'max'"
    _require(config.get("effort", "high") in _EFFORTS, wrong)


def _check_thinking(body: Mapping[str, Any]) -> None:
    how = body.get("thinking", {"type": "disabled"})
    kinds = ("enabled", "adaptive", "disabled")
    _require(how.get("type") in kinds, f"thinking.type: Input should be one of {kinds}")
    if how["type"] == "enabled":
        budget = how.get("budget_tokens")
        _require(type(budget) is int, "thinking.enabled.budget_tokens: Field required")
        _require(budget >= 1024, "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
        _require(budget < body["max_tokens"], "`max_tokens` must be greater than `thinking.budget_tokens`.")
    if how["type"] != "disabled":
        only = "`temperature` may only be set to 1 when thinking is enabled or in adaptive mode."
        _require(body.get("temperature", 1) == 1, only)
        _require("top_k" not in body, "`top_k` must be unset when thinking is enabled or in adaptive mode.")
        _require(body.get("top_p", 1) >= 0.95, "`top_p` must be greater than or equal to 0.95 when thinking is enabled")


def _check_system(system: object) -> None:
    for index, block in enumerate([text(system)] if isinstance(system, str) else system):
        _check_block(block, f"system.{index}", {"text"})
        _require(block["text"] != "", "system: text content blocks must be non-empty")


def _check_tools(tools: Sequence[Mapping[str, Any]]) -> None:
    for index, tool in enumerate(tools):
        at = f"tools.{index}.custom"
        _require(isinstance(tool.get("name"), str), f"{at}.name: Field required")
        _require(_NAME.fullmatch(tool["name"]), f"{at}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
        for name in sorted(set(tool) - {"name", "description", "input_schema", "cache_control", "type", "strict"}):
            _refuse(f"{at}.{name}: Extra inputs are not permitted")
        _require("input_schema" in tool, f"{at}.input_schema: Field required")
        _require(tool["input_schema"].get("type") == "object", f"{at}.input_schema.type: Field required")
    names = [tool["name"] for tool in tools]
    _require(len(set(names)) == len(names), "tools: Tool names must be unique.")


def _check_messages(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The turns: the API merges consecutive messages of the same role."""
    _require(messages, "messages: at least one message is required")
    turns: list[dict[str, Any]] = []
    for index, sent in enumerate(messages):
        at = f"messages.{index}"
        for name in sorted(set(sent) - {"role", "content"}):
            _refuse(f"{at}.{name}: Extra inputs are not permitted")
        role = sent.get("role")
        _require(role in _OF_ROLE, f'messages: Unexpected role "{role}".')
        content = [text(sent["content"])] if isinstance(sent["content"], str) else sent["content"]
        _require(content, f"{at}: {role} messages must have non-empty content")
        for number, block in enumerate(content):
            _check_block(block, f"{at}.content.{number}", _OF_ROLE[role])
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += content
        else:
            turns.append({"role": role, "content": list(content)})
    _require(turns[0]["role"] == "user", 'messages: first message must use the "user" role')
    return turns


def _check_block(block: Mapping[str, Any], at: str, kinds: set[str]) -> None:
    kind = block.get("type")
    _require(kind in kinds, f"{at}: Input tag '{kind}' found using 'type' does not match any of the expected tags")
    for name in sorted(set(block) - _BLOCKS[kind]):
        _refuse(f"{at}.{kind}.{name}: Extra inputs are not permitted")
    if kind == "text":
        _require(isinstance(block.get("text"), str), f"{at}.text.text: Input should be a valid string")
        empty = "cache_control cannot be set for empty text blocks" if "cache_control" in block else ""
        _require(
            block["text"] != "", f"{at}.text: {empty}" if empty else "messages: text content blocks must be non-empty"
        )
        _require(block["text"].strip() != "", "messages: text content blocks must contain non-whitespace text")
    if kind == "tool_use":
        _require(_NAME.fullmatch(block["id"]), f"{at}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
        _require(_NAME.fullmatch(block["name"]), f"{at}.tool_use.name: String should match pattern")
        _require(isinstance(block["input"], dict), f"{at}.tool_use.input: Input should be a valid dictionary")


def _check_calls(turns: Sequence[Mapping[str, Any]], has_tools: bool) -> None:
    """Checks that each call has its result at the start of the next turn, and vice versa."""
    asked: list[str] = []
    seen: set[str] = set()
    for index, turn in enumerate(turns):
        kinds = [block["type"] for block in turn["content"]]
        results = [block["tool_use_id"] for block in turn["content"] if block["type"] == "tool_result"]
        for call_id in results:
            if call_id not in asked:
                _refuse(
                    f"messages.{index}.content.0: unexpected `tool_use_id` found in `tool_result` blocks: {call_id}. "
                    "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
                )
        at_the_start = kinds[: len(results)].count("tool_result") == len(results)
        unanswered = [call_id for call_id in asked if call_id not in results or not at_the_start]
        if unanswered:
            _refuse(
                f"messages.{index - 1}: `tool_use` ids were found without `tool_result` blocks immediately after: "
                f"{', '.join(unanswered)}. Each `tool_use` block must have a corresponding `tool_result` block in the "
                "next message."
            )
        _require(len(set(results)) == len(results), f"messages.{index}: each tool_use must have a single result.")
        asked = [block["id"] for block in turn["content"] if block["type"] == "tool_use"]
        _require(len([*asked, *seen]) == len({*asked, *seen}), "messages: `tool_use` ids must be unique")
        seen |= set(asked)
    _require(not asked, "messages: `tool_use` ids were found without `tool_result` blocks immediately after")
    _require(has_tools or not seen, "Requests which include `tool_use` or `tool_result` blocks must define tools.")


def _check_thoughts(
    turns: Sequence[Mapping[str, Any]], body: Mapping[str, Any], issued: Sequence[Sequence[dict[str, Any]]]
) -> None:
    """Checks that thinking is signed, and that the last assistant turn has its thinking unchanged."""
    for index, turn in enumerate(turns):
        for number, block in enumerate(turn["content"]):
            if block["type"] == "thinking" and block.get("signature") != seal(block["thinking"]):
                _refuse(f"messages.{index}.content.{number}: Invalid `signature` in `thinking` block")
            if block["type"] == "redacted_thinking" and seal(block["data"].split(".")[0]) not in block["data"]:
                _refuse(f"messages.{index}.content.{number}: Invalid `data` in `redacted_thinking` block")
    assistants = [(index, turn["content"]) for index, turn in enumerate(turns) if turn["role"] == "assistant"]
    if not assistants:
        return
    index, last = assistants[-1]
    ids = {block["id"] for block in last if block["type"] == "tool_use"}
    for given in issued:
        same = ids and {block.get("id") for block in given if block["type"] == "tool_use"} == ids
        if same and _thoughts(given) != _thoughts(last):
            _refuse(
                f"messages.{index}.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant "
                "message cannot be modified. These blocks must remain as they were in the original response."
            )
    if ids and body.get("thinking", {}).get("type") == "enabled" and not _thoughts(last[:1]):
        _refuse(
            f"messages.{index}.content.0.type: Expected `thinking` or `redacted_thinking`, but found "
            f"`{last[0]['type']}`. When `thinking` is enabled, a final `assistant` message must start with a thinking "
            "block."
        )


def _thoughts(blocks: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [block for block in blocks if block["type"] in ("thinking", "redacted_thinking")]


def _check_end(turns: Sequence[Mapping[str, Any]]) -> None:
    for index, turn in enumerate(turns):
        kind = turn["content"][-1]["type"]
        if kind in ("thinking", "redacted_thinking"):
            _refuse(f"messages.{index}: The final block in an assistant message cannot be `{kind}`.")
    last = turns[-1]["content"][-1]
    if turns[-1]["role"] == "assistant" and last["type"] == "text" and last["text"] != last["text"].rstrip():
        _refuse("messages: final assistant content cannot end with trailing whitespace")


def _check_cache(body: Mapping[str, Any]) -> None:
    contents = [sent["content"] for sent in body["messages"] if isinstance(sent["content"], list)]
    system = body["system"] if isinstance(body.get("system"), list) else []
    blocks = [*body.get("tools", []), *system, *(block for content in contents for block in content)]
    marks = [block["cache_control"] for block in blocks if "cache_control" in block]
    if "cache_control" in body:
        marks.append(body["cache_control"])
    for mark in marks:
        _require(mark.get("type") == "ephemeral", "cache_control.type: Input should be 'ephemeral'")
    many = f"A maximum of 4 blocks with cache_control may be provided. Found {len(marks)}."
    _require(len(marks) <= 4, many)


def _require(holds: object, message: str) -> None:
    if not holds:
        _refuse(message)


def _refuse(message: str) -> None:
    raise Refusal(400, "invalid_request_error", message)
