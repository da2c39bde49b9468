"""The OpenAI Responses format, stateless on the server.

A reply's output items are kept in `Message.provider_fields["responses"]` and sent back unchanged: reasoning is
encrypted, and the API refuses reasoning that was changed or separated from the item it led to.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hermes_lab.config.schema import ModelConfig
from hermes_lab.errors import ModelError
from hermes_lab.models.finish import SOUND, Ending, ending_of
from hermes_lab.models.refusals import Failed, Refused
from hermes_lab.models.wires.calls import arguments_text, read_call
from hermes_lab.models.wires.checks import refuse_fields, sound_ending
from hermes_lab.models.wires.failure import failure_of
from hermes_lab.models.wires.loose import count, items, mapping, text
from hermes_lab.models.wires.native import NativeWire
from hermes_lab.models.wires.native_calls import cut_call, function, own_ids, sendable_id, sendable_name
from hermes_lab.protocols import Delta
from hermes_lab.types import Generation, Message, ToolCall, Usage
from hermes_lab.types.trajectory import ToolFormat

FIELD = "responses"
"""The key of the stored output items in `Message.provider_fields`."""

_MISSING = ("top_k", "min_p", "seed", "stop", "presence_penalty", "frequency_penalty")
_ENCRYPTED = "reasoning.encrypted_content"
_LAST = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")
# Error codes that a retry does not fix; it may fix any other.
_LASTING = re.compile(
    r"invalid|unsupported|not_found|image|context_length|too_l|insufficient_quota|policy|authentication|permission"
)


class ResponsesWire(NativeWire):
    """The Responses API, set up for one model.

    Nothing is stored at the endpoint: every request contains the whole conversation, with encrypted reasoning. A
    leading system message is sent as `instructions`; later ones stay in place.
    """

    path = "/responses"

    def __init__(self, config: ModelConfig, model: str, tool_format: ToolFormat = "native") -> None:
        """Raises `ConfigError` if `config` requests something the API does not support."""
        refuse_fields(config, "the OpenAI Responses API", _MISSING)
        super().__init__(config, _fixed_fields(config, model), tool_format)

    def headers(self, key: str) -> dict[str, str]:
        """The key as a bearer token."""
        return {"Authorization": f"Bearer {key}"} if key else {}

    def body(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], *, stream: bool = False
    ) -> dict[str, Any]:
        """See `Wire`."""
        body = self._fixed | ({"stream": True} if stream else {})
        if messages and messages[0].role == "system":
            body["instructions"] = messages[0].content
            messages = messages[1:]
        body["input"] = [item for message in messages for item in _items(message, self._native)]
        if tools and self._native:
            body["tools"] = [_tool(schema) for schema in tools]
        return body

    def _read(self, received: Mapping[str, Any], sent: Sequence[Message]) -> Generation:
        _raise_error(received)
        ending = _ending(received, self._sound)
        if not isinstance(received.get("output"), list):
            raise ModelError("the reply has no output")
        output = [dict(item) for item in received["output"] if isinstance(item, Mapping)]
        calls: Sequence[ToolCall] = ()
        if self._native:
            calls = _take_calls(output, sent, is_cut=ending not in SOUND)
        said = [item for item in output if item.get("type") == "message"]
        # Commentary before the answer is not part of it.
        answers = [] if calls else [item for item in said if item.get("phase") != "commentary"]
        parts = [_parts(item.get("content")) for item in answers or said]
        if ending == "stop" and calls:
            ending = "tool_calls"
        elif ending == "stop" and any(mapping(part).get("type") == "refusal" for content in parts for part in content):
            ending = "refusal"
        message = Message(
            role="assistant",
            content="\n\n".join(filter(None, map(_said, parts))),
            tool_calls=tuple(calls),
            reasoning=_reasoning(output),
            provider_fields={FIELD: output} if self._native and output else {},
        )
        return Generation(message, ending, _usage(mapping(received.get("usage"))))

    def assemble(self, events: Sequence[object]) -> object:
        """See `Wire`. A stream that broke off gives an error."""
        done: list[Mapping[str, Any]] = []
        added = 0
        for event in map(mapping, events):
            kind = event.get("type")
            if kind == "error":
                return {"error": event.get("error") if isinstance(event.get("error"), Mapping) else event}
            if kind in _LAST:
                return _last(event, done, added)
            added += kind == "response.output_item.added"
            if kind == "response.output_item.done":
                done.append(event)
        return _broken("the stream ended before the response was complete")

    def deltas(self, event: object) -> Iterator[Delta]:
        """See `Wire`."""
        received = mapping(event)
        kind, more = text(received.get("type")), text(received.get("delta"))
        if kind == "response.output_item.added" and mapping(received.get("item")).get("type") == "message":
            yield Delta("text", "\n\n")
        elif kind in ("response.output_text.delta", "response.refusal.delta"):
            yield Delta("text", more)
        elif kind.startswith("response.reasoning") and kind.endswith("part.added"):
            yield Delta("reasoning", "\n\n")
        elif kind.startswith("response.reasoning") and kind.endswith(".delta"):  # its text, or its summary
            yield Delta("reasoning", more)


def _fixed_fields(config: ModelConfig, model: str) -> dict[str, Any]:
    """The fields of every request."""
    sampling = config.sampling
    fields = dict(config.extra_body)
    included = [each for each in items(fields.get("include")) if each != _ENCRYPTED]
    fields |= {"model": model, "store": False, "include": [*included, _ENCRYPTED]}
    if config.stream:
        fields["stream"] = True
    if sampling.max_tokens is not None:
        fields["max_output_tokens"] = sampling.max_tokens
    if sampling.temperature is not None:
        fields["temperature"] = sampling.temperature
    if sampling.top_p is not None:
        fields["top_p"] = sampling.top_p
    if config.reasoning_effort:
        fields["reasoning"] = dict(mapping(fields.get("reasoning"))) | {"effort": config.reasoning_effort}
    return fields


def _items(message: Message, native: bool) -> list[dict[str, Any]]:
    """The input items of a message."""
    if message.role == "tool":
        call_id = sendable_id(message.tool_call_id)
        return [{"type": "function_call_output", "call_id": call_id, "output": message.content}]
    if native and (stored := items(message.provider_fields.get(FIELD))):
        return _sendable(stored)
    said = [{"role": message.role, "content": message.content}] if message.content or message.role == "user" else []
    return said + [_call_item(call) for call in message.tool_calls] if native else said


def _call_item(call: ToolCall) -> dict[str, Any]:
    return {
        "type": "function_call",
        "call_id": sendable_id(call.id),
        "name": sendable_name(call.name),
        "arguments": arguments_text(call),
    }


def _sendable(stored: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Stored items without what the API returns but does not accept: nulls, messages without content, reasoning known
    only to a server that stored it, and reasoning that led to nothing."""
    sent = [
        {key: value for key, value in item.items() if value is not None}
        for item in stored
        if not (item.get("type") == "message" and not items(item.get("content")))
        and not (item.get("type") == "reasoning" and not item.get("encrypted_content") and not item.get("content"))
    ]
    while sent and sent[-1].get("type") == "reasoning":
        sent.pop()
    return sent


def _tool(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A tool. Not `strict`, although that is the API's default: few schemas satisfy it."""
    tool = function(schema)
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": False,
    }


def _ending(reply: Mapping[str, Any], listed: Sequence[str]) -> Ending:
    """How the reply ended: its status, or why it is incomplete."""
    status = reply.get("status")
    if status != "incomplete":
        return sound_ending("status", status, listed)
    reason = mapping(reply.get("incomplete_details")).get("reason")
    if reason is None or ending_of(reason) in SOUND:  # the status takes precedence over an unknown reason
        return "length"
    return sound_ending("incomplete_details.reason", reason, listed)


def _take_calls(output: list[dict[str, Any]], sent: Sequence[Message], *, is_cut: bool) -> list[ToolCall]:
    """Reads the calls in `output`, and fixes those that the API would not accept back."""
    asked = [item for item in output if item.get("type") == "function_call"]
    calls = []
    for item, call_id in zip(asked, own_ids([text(item.get("call_id")) for item in asked], sent), strict=True):
        name, arguments = text(item.get("name")), item.get("arguments")
        if item.get("status") == "incomplete" or (is_cut and item is output[-1]):
            call = cut_call(call_id, name, arguments)
        else:
            call = read_call(call_id, name, arguments, {})
        calls.append(call)
        item["call_id"], item["name"] = call_id, sendable_name(name)
        if call.error or not (isinstance(arguments, str) and arguments.strip()):
            item["arguments"] = arguments_text(call)
    return calls


def _parts(content: object) -> Sequence[Any]:
    """The parts of a message; some servers send just its text."""
    return [{"text": content}] if isinstance(content, str) else items(content)


def _said(content: Sequence[object]) -> str:
    """The text of a message, including that of a refusal."""
    parts = [mapping(part) for part in content]
    return "".join(text(part.get("refusal" if part.get("type") == "refusal" else "text")) for part in parts)


def _reasoning(output: Sequence[Mapping[str, Any]]) -> str:
    """The reasoning if it is disclosed: its text, else its summary."""
    told: list[str] = []
    for item in output:
        if item.get("type") == "reasoning":
            parts = [
                text(mapping(part).get("text")) for part in items(item.get("content")) or items(item.get("summary"))
            ]
            told += [part for part in parts if part]
    return "\n\n".join(told)


def _usage(usage: Mapping[str, Any]) -> Usage:
    prompt = count(usage.get("input_tokens"))
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=count(usage.get("output_tokens")),
        cached_tokens=count(mapping(usage.get("input_tokens_details")).get("cached_tokens")),
        reasoning_tokens=count(mapping(usage.get("output_tokens_details")).get("reasoning_tokens")),
        uncounted=int(not prompt),
    )


def _raise_error(reply: Mapping[str, Any]) -> None:
    """Raises `Refused` for an error that a retry does not fix, else `Failed`, if the reply is an error.

    The message contains the code, which identifies prompts that are too long.
    """
    error = reply.get("error")
    if not isinstance(error, Mapping) and not isinstance(reply.get("output"), list) and (found := failure_of(reply)):
        raise found  # in the form of a proxy
    if not isinstance(error, Mapping) and reply.get("status") != "failed":
        return
    error = mapping(error)
    kind = text(error.get("type"))
    code = text(error.get("code")) or ("" if kind == "error" else kind)  # a stream's error event has the type "error"
    message = text(error.get("message")) or "the response failed, and the server does not say why"
    message = " ".join(f"{message} ({code})".split()) if code else " ".join(message.split())
    if _LASTING.search(code):
        raise Refused(message, 400)
    raise Failed(message)


def _last(event: Mapping[str, Any], done: Sequence[Mapping[str, Any]], added: int) -> dict[str, Any]:
    """The response of the last event. If its output is empty, it is collected from the stream's items."""
    word = text(event.get("type")).removeprefix("response.")
    reply: dict[str, Any] = {"status": word, **mapping(event.get("response"))}
    if word != "completed" and reply["status"] == "completed":
        reply["status"] = word
    if items(reply.get("output")) or not (done or added):
        return reply
    if len(done) < added:
        return _broken("the stream began an output item that it did not end")
    return reply | {"output": [event.get("item") for event in sorted(done, key=_place)]}


def _place(event: Mapping[str, Any]) -> int:
    """The item's index. Items without one keep their order, as sorting is stable."""
    return count(event.get("output_index"))


def _broken(message: str) -> dict[str, Any]:
    return {"error": {"code": "server_error", "message": message}}
