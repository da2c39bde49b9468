"""Joins the chunks of a streamed chat completion."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hermes_lab.models.wires.failure import failure_of
from hermes_lab.models.wires.loose import items, mapping, text
from hermes_lab.models.wires.sse import DONE


def assembled(events: Sequence[object]) -> object:
    """Joins the chunks into one completion; a chunk that is an error or a whole completion is returned as the reply."""
    reply: dict[str, Any] = {}
    message: dict[str, Any] = {}
    choice: dict[str, Any] = {"finish_reason": None}
    calls: list[dict[str, Any]] = []
    for event in events:
        chunk = mapping(event)
        if chunk.get("error") or chunk.get("object") == "error" or ("choices" not in chunk and failure_of(chunk)):
            return chunk if chunk.get("error") else {"error": chunk}
        for name in ("model", "usage", "prompt_token_ids"):
            if chunk.get(name):
                reply[name] = chunk[name]
        first = first_choice(chunk)
        if first.get("usage"):  # where Kimi puts it
            reply["usage"] = first["usage"]
        if "message" in first and "delta" not in first:
            return chunk
        choice |= {name: first[name] for name in ("finish_reason", "error") if first.get(name)}
        _grow(choice, "token_ids", items(first.get("token_ids")))
        if logprobs := items(mapping(first.get("logprobs")).get("content")):
            _grow(choice.setdefault("logprobs", {}), "content", logprobs)
        delta = mapping(first.get("delta"))
        for name, value in delta.items():
            if name != "tool_calls":
                _grow(message, name, value)
        pieces = delta.get("tool_calls")
        for piece in [pieces] if isinstance(pieces, Mapping) else items(pieces):  # TGI sends a call instead of a list
            _grow_call(calls, mapping(piece))
    if choice["finish_reason"] is None and DONE not in events:
        return {"error": {"message": "the stream ended before the reply was complete", "code": 502}}
    if calls:
        message["tool_calls"] = calls
    return reply | {"choices": [choice | {"message": message or {"content": ""}}]}


def first_choice(chunk: Mapping[str, Any]) -> Mapping[str, Any]:
    """The choice with the index 0 in a chunk; empty if there is none, as in the chunk with the usage."""
    return next((mapping(each) for each in items(chunk.get("choices")) if not mapping(each).get("index")), {})


def _grow(target: dict[str, Any], name: str, value: Any) -> None:
    """Adds a streamed piece to a field: strings and arrays are extended, other values are replaced.

    If the content changes between a string and an array of parts, as Mistral's does after its reasoning, the string
    becomes a part.
    """
    before = target.get(name)
    if isinstance(before, str) and before and isinstance(value, list):
        before = [{"type": "text", "text": before}]
    elif isinstance(before, list) and before and isinstance(value, str):
        last = mapping(before[-1])
        if value and last.get("type") == "text":
            before, value = before[:-1], text(last.get("text")) + value
        value = [{"type": "text", "text": value}] if value else []
    if isinstance(before, str) and isinstance(value, str) and name != "role":
        target[name] = before + value
    elif isinstance(before, list) and isinstance(value, list):
        target[name] = _joined(before, value)
    elif value:
        target[name] = value


def _joined(before: list[Any], more: list[Any]) -> list[Any]:
    """Joins arrays of parts; a piece with the index of an existing part extends it."""
    joined = list(before)
    for each in more:
        index = each.get("index") if isinstance(each, Mapping) else None
        same = next(
            (n for n, old in enumerate(joined) if index is not None and mapping(old).get("index") == index), None
        )
        if same is None:
            joined.append(each)
            continue
        grown = dict(joined[same])
        for name, value in each.items():
            if name in ("type", "format", "id", "index"):
                grown[name] = value
            else:
                _grow(grown, name, value)
        joined[same] = grown
    return joined


def _is_another(call: Mapping[str, Any], call_id: object, name: object) -> bool:
    """Whether a piece starts a new call although it has the index of `call`; some gateways to Gemini number all calls
    0.

    It does if it has another id, or a name while the arguments of `call` are complete.
    """
    has_another_id = bool(call_id) and bool(call["id"]) and call_id != call["id"]
    is_named_again = not call_id and bool(name) and bool(call["function"]["name"])
    return (has_another_id or is_named_again) and _is_whole(call["function"]["arguments"])


def _is_whole(arguments: object) -> bool:
    try:
        return isinstance(arguments, Mapping) or isinstance(json.loads(arguments or ""), dict)  # type: ignore[arg-type]
    except ValueError:
        return False


def _grow_call(calls: list[dict[str, Any]], piece: Mapping[str, Any]) -> None:
    index, call_id, function = piece.get("index"), piece.get("id"), mapping(piece.get("function"))
    if index is None:  # Gemini: a piece with its own id or name starts a call, any other continues the last one
        has_own_id = bool(call_id) and all(call["id"] != call_id for call in calls)
        begins = not calls or has_own_id or bool(not call_id and function.get("name"))
        index = len(calls) if begins else len(calls) - 1
    call = next((each for each in reversed(calls) if each["index"] == index), None)
    if call is None or _is_another(call, call_id, function.get("name")):
        call = {"index": index, "id": call_id, "function": {"name": None, "arguments": None}}
        calls.append(call)
    call["id"] = call["id"] or call_id
    call["function"]["name"] = call["function"]["name"] or function.get("name")
    _grow(call["function"], "arguments", function.get("arguments"))
    call |= {name: value for name, value in piece.items() if name not in ("index", "id", "type", "function")}
