"""Where replies come from: a model client of the lab, or an endpoint that speaks the program's own dialect."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from hermes_lab.config.schema import ModelConfig
from hermes_lab.models.client import EndpointClient
from hermes_lab.models.wires.calls import with_own_ids
from hermes_lab.models.wires.loose import mapping
from hermes_lab.models.wires.sse import events_of, is_stream
from hermes_lab.protocols import ModelClient
from hermes_lab.proxy.dialects import DIALECTS
from hermes_lab.proxy.exchange import Answer, Request
from hermes_lab.types import Generation, Message

_LIMITS = ("max_completion_tokens", "max_output_tokens", "max_tokens")
"""The fields by which programs limit a reply, one of which each dialect has."""
_OBJECT = re.compile(rb'"arguments"\s*:\s*[{\[]')
_HAS_CALLS = re.compile(rb'"(?:tool_calls"\s*:\s*\[\s*\{|function_call"\s*:\s*\{)')
"""Matches structured calls in a chat completion; within a text, the quotes would be escaped."""
_DEFAULT_LIMIT = {"chat": "max_tokens", "messages": "max_tokens", "responses": "max_output_tokens"}


class Upstream(Protocol):
    """Answers the requests of one episode."""

    async def answer(self, request: Request) -> Answer:
        """One reply. Raises as `ModelClient.generate`, and `Rejected` for a refusal that the program caused itself."""
        ...


def upstream_for(config: ModelConfig, model: ModelClient, dialect: str) -> Upstream:
    """The upstream of an episode: raw for an endpoint of the same dialect, so that nothing is lost in translation."""
    provider = DIALECTS[dialect].provider
    same = config.provider == provider or (config.provider == "vllm" and provider == "openai")
    if same and isinstance(model, EndpointClient) and not config.tool_parser:
        return RawUpstream(config, model)
    return ModelUpstream(model)


@dataclass
class ModelUpstream:
    """Any model client. What a program does not send back, such as a reply's reasoning, is put back from the reply that
    it came with."""

    model: ModelClient
    _given: dict[str, Message] = field(default_factory=dict)

    async def answer(self, request: Request) -> Answer:
        """See `Upstream.answer`."""
        messages = [self._whole(message) for message in request.asked.messages]
        generation = await self.model.generate(messages, request.asked.tools)
        calls = with_own_ids(generation.message.tool_calls, messages)
        message = msgspec.structs.replace(generation.message, tool_calls=calls)
        for call in calls:
            self._given[call.id] = message
        return Answer(msgspec.structs.replace(generation, message=message))

    def _whole(self, message: Message) -> Message:
        if message.role != "assistant" or not message.tool_calls:
            return message
        given = self._given.get(message.tool_calls[0].id)
        same = given and [call.id for call in given.tool_calls] == [call.id for call in message.tool_calls]
        return given if given and same else message


@dataclass(frozen=True)
class RawUpstream:
    """An endpoint of the program's own dialect, which gets the program's body with the configured model, sampling
    parameters and extra fields. A streamed reply is read to its end before it is passed on.

    A refusal of what the program itself asked for is `Rejected`: the program gets it as it is, and may ask otherwise.
    Those are the statuses 400, 405, 406, 413, 415 and 422, unless they concern a field that the configuration has set,
    the account, or the model. All others, such as 401, 403 and 404, are failures, and so is what persists after the
    retries."""

    config: ModelConfig
    model: EndpointClient

    async def answer(self, request: Request) -> Answer:
        """See `Upstream.answer`."""
        asked, configured = request.asked, self._configured(request)
        own = {name.lower() for name in self.config.headers}
        generation, raw = await self.model.forward(
            {**request.body, **configured},
            asked.messages,
            asked.tools,
            configured={*configured, "tools"},  # whether the endpoint can have tools at all is its own matter
            headers={name: value for name, value in request.headers.items() if name not in own},
        )
        return Answer(generation, _readable(raw, request, generation))

    def _configured(self, request: Request) -> dict[str, Any]:
        """The fields that the configuration sets. Parameters that are null stay the program's own."""
        config, dialect = self.config, request.dialect
        fields = {**config.extra_body, "model": self.model.identity.adapter or self.model.identity.name}
        sampling = config.sampling.model_dump(mode="json")
        limit, stop = sampling.pop("max_tokens"), sampling.pop("stop")
        if dialect == "messages" and sampling["top_p"] == 1:  # as `AnthropicWire`
            del sampling["top_p"]
        fields |= {name: value for name, value in sampling.items() if value is not None}
        if stop:
            fields["stop_sequences" if dialect == "messages" else "stop"] = stop
        if limit is not None:
            given = next((name for name in _LIMITS if name in request.body), _DEFAULT_LIMIT[dialect])
            fields[given] = limit
        if config.reasoning_effort:
            fields |= _effort(dialect, config.reasoning_effort, {**request.body, **fields})
        if config.token_ids:
            fields |= {"logprobs": True, "return_token_ids": True}
        return fields


def _effort(dialect: str, effort: str, body: Mapping[str, Any]) -> dict[str, Any]:
    if dialect == "responses":
        return {"reasoning": {**mapping(body.get("reasoning")), "effort": effort}}
    if dialect == "messages":
        thinking = body.get("thinking", {"type": "adaptive"})
        return {"output_config": {**mapping(body.get("output_config")), "effort": effort}, "thinking": thinking}
    return {"reasoning_effort": effort}


def _readable(raw: bytes, request: Request, generation: Generation) -> bytes:
    """The reply's bytes as the program can read them; none if they must be written anew.

    They must where the endpoint streams only, or never, and where the client has found a call in the text or mended
    one: a call without an id, or with arguments that are an object.
    """
    asked = request.asked
    if is_stream(raw) != asked.stream:
        return b""
    if request.dialect != "chat":
        return raw
    calls = generation.message.tool_calls
    if calls and (not _HAS_CALLS.search(raw) or _OBJECT.search(raw) or any(c.id.encode() not in raw for c in calls)):
        return b""
    wants_usage = mapping(request.body.get("stream_options")).get("include_usage")
    return raw if wants_usage or not asked.stream else _without_usage(raw)


def _without_usage(stream: bytes) -> bytes:
    """A stream without its usage, which has no choices: programs that did not ask for it rely on the first one."""
    events = re.split(rb"\r?\n\r?\n", stream)
    kept = [event for event in events if not any(mapping(each).get("choices") == [] for each in events_of(event))]
    return b"\n\n".join(kept)
