"""OpenAI chat completions, as spoken by the many servers that claim to be compatible."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import NoneType
from typing import Any

import msgspec

from hermes_lab.config.schema import ModelConfig
from hermes_lab.errors import ModelError
from hermes_lab.models import parsers
from hermes_lab.models.finish import SOUND, ending_of
from hermes_lab.models.parsers._fences import Found, bare_calls
from hermes_lab.models.parsers._values import kind
from hermes_lab.models.reasoning import split_reasoning
from hermes_lab.models.refusals import Failed, Refused
from hermes_lab.models.wires.calls import arguments_text, read_call, with_own_ids
from hermes_lab.models.wires.chat_stream import assembled, first_choice
from hermes_lab.models.wires.checks import sound_ending
from hermes_lab.models.wires.failure import failure_of
from hermes_lab.models.wires.lessons import TEACHING, wants_stream
from hermes_lab.models.wires.loose import count, items, mapping, text
from hermes_lab.models.wires.native_calls import cut_call
from hermes_lab.protocols import Delta
from hermes_lab.types import Generation, Message, ToolCall, Usage
from hermes_lab.types.trajectory import ToolFormat

_REASONING = (
    "reasoning_content",
    "reasoning",
    "reasoning_text",
    "thinking",
    "thought",
    "thoughts",
    "reasoning_details",
)
"""Message fields with reasoning, in order of preference: DeepSeek, Kimi, xAI and SGLang; vLLM, OpenRouter, Groq and
Together; Copilot; Ollama; others."""
_WANTED_BACK = re.compile(r"reason|think|thought|signature|encrypted|opaque|extra_content")
"""Call fields that an endpoint expects back. No others are sent: strict endpoints refuse unknown fields, even their
own."""
OTHER_FORMATS = frozenset({"anthropic", "responses"})
"""Keys in `Message.provider_fields` that belong to other wire formats."""
_OWN_FIELDS = frozenset({"id", "type", "function", "index"})


@dataclass(frozen=True)
class Dialect:
    """The variant that an endpoint speaks; what is not configured is learned from its refusals."""

    limit_field: str = "max_tokens"
    stream: bool = False
    stream_usage: bool = True
    """Whether it accepts a request for usage at the end of a stream."""
    keeps_special: bool = True
    """Whether it accepts a request to keep the special tokens that mark calls in the text."""
    unwanted: frozenset[str] = frozenset()
    """Reply fields that it does not accept back."""


class ChatWire:
    """A `Wire` for chat completions.

    In the text format (`hermes`) a reply's text is left whole, and the caller parses the calls. In the `native` format
    `model.tool_parser`, if set, parses calls that the server left in the text.
    """

    path = "/chat/completions"

    def __init__(self, config: ModelConfig, model: str, tool_format: ToolFormat) -> None:
        self._config = config
        self._tool_format = tool_format
        self._parser = parsers.get(config.tool_parser) if config.tool_parser else None
        self._fixed = _fixed_fields(config, model)
        limit = "max_tokens" if config.limit_field == "auto" else config.limit_field
        self.dialect = Dialect(limit, config.stream)

    def headers(self, key: str) -> dict[str, str]:
        """A bearer token."""
        return {"Authorization": f"Bearer {key}"} if key else {}

    def body(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], *, stream: bool = False
    ) -> dict[str, Any]:
        """See `Wire`."""
        sampling = self._config.sampling
        stream = stream or self.dialect.stream
        body = self._fixed | {"messages": _requested(messages, self._tool_format, self.dialect.unwanted)}
        if sampling.max_tokens is not None:
            body[self.dialect.limit_field] = sampling.max_tokens
        if stream:
            body["stream"] = True
        if stream and self.dialect.stream_usage:
            body["stream_options"] = {"include_usage": True}
        if tools:
            body["tools"] = tools
        if tools and self._parser:
            # The server renders the tools but does not parse the reply, and keeps the special tokens that mark calls.
            body["tool_choice"] = "none"
            if self.dialect.keeps_special:
                body["skip_special_tokens"] = False
        return body

    def adapted(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """See `Wire`. A stream is asked for its usage, without which no budget of tokens would end."""
        sent, dialect = dict(body), self.dialect
        if self._config.limit_field != "auto" or dialect.limit_field == "max_completion_tokens":
            for name in ("max_tokens", "max_completion_tokens"):
                if name in sent and name != dialect.limit_field:
                    sent[dialect.limit_field] = sent.pop(name)
        if dialect.stream:
            sent["stream"] = True
        if sent.get("stream") and dialect.stream_usage:
            sent["stream_options"] = {**mapping(sent.get("stream_options")), "include_usage": True}
        if not dialect.stream_usage:
            sent.pop("stream_options", None)
        if not dialect.keeps_special:
            sent.pop("skip_special_tokens", None)
        if dialect.unwanted:
            sent["messages"] = [_without(row, dialect.unwanted) for row in items(sent.get("messages"))]
        return sent

    def learn(self, refused: Refused, body: Mapping[str, Any]) -> bool:
        """See `Wire`."""
        said = str(refused).lower()
        if refused.status not in TEACHING:
            return False
        if "max_tokens" in body and self._config.limit_field == "auto" and _refuses(said, "max_tokens"):
            self.dialect = replace(self.dialect, limit_field="max_completion_tokens")
        elif "stream_options" in body and (_refuses(said, "stream_options") or _refuses(said, "include_usage")):
            self.dialect = replace(self.dialect, stream_usage=False)
        elif "skip_special_tokens" in body and _refuses(said, "skip_special_tokens"):
            self.dialect = replace(self.dialect, keeps_special=False)
        elif wants_stream(refused, body):
            self.dialect = replace(self.dialect, stream=True)
        elif unwanted := {name for name in _returned_fields(body) if _refuses(said, name.lower())}:
            self.dialect = replace(self.dialect, unwanted=self.dialect.unwanted | unwanted)
        else:
            return False
        return True

    def read(self, reply: object, sent: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> Generation:
        """See `Wire`."""
        completion = mapping(reply)
        choice = next((mapping(each) for each in items(completion.get("choices")) if isinstance(each, Mapping)), None)
        if choice is None:
            raise failure_of(reply) or Failed("the reply has no choices")
        if choice.get("error"):
            raise failure_of(choice) or Failed("the reply contains an error")
        said = mapping(choice.get("message"))
        word = choice.get("finish_reason")
        if ending_of(word, self._config.finish_reasons) in ("failed", "unknown") and (failure := failure_of(reply)):
            raise failure
        ending = sound_ending("finish_reason", word, self._config.finish_reasons)
        if fault := "" if not said and ending == "content_filter" else _fault(said):  # a withheld reply has no message
            raise failure_of(reply) or Failed(fault)
        message = self._message(said, sent, tools)
        if ending == "tool_calls" and self._tool_format == "native" and tools and not message.tool_calls:
            raise Failed(f"the reply has the finish_reason {word!r}, but no call")
        if ending not in SOUND and (calls := message.tool_calls):  # the last one may be truncated
            last = calls[-1]
            cut = cut_call(last.id, last.name, last.raw or arguments_text(last))
            message = msgspec.structs.replace(message, tool_calls=(*calls[:-1], cut))
        if ending in SOUND and text(said.get("refusal")).strip() and not message.tool_calls:
            ending = "refusal"
            message = msgspec.structs.replace(message, content=message.content or text(said["refusal"]))
        generation = Generation(message, ending, _usage(mapping(completion.get("usage"))))
        return _with_tokens(generation, completion, choice) if self._config.token_ids else generation

    def assemble(self, events: Sequence[object]) -> object:
        """See `Wire`."""
        return assembled(events)

    def deltas(self, event: object) -> Iterator[Delta]:
        """See `Wire`."""
        delta = mapping(first_choice(mapping(event)).get("delta"))
        content, thoughts, _ = _content(delta.get("content"))
        yield Delta("reasoning", _reasoning(delta) or thoughts)
        yield Delta("text", content or text(delta.get("refusal")))

    def _message(self, said: Mapping[str, Any], sent: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> Message:
        content, thought_parts, kept = _content(said.get("content"))
        reasoning = _reasoning(said) or thought_parts
        calls: Sequence[ToolCall] = ()
        if self._tool_format == "native" and tools and self._parser:
            content, thought, calls = self._parser(content, tools)
            reasoning = reasoning or thought
        elif self._tool_format == "native":
            calls = list(_calls(said))
            reasoning = reasoning or split_reasoning(content).reasoning
            if tools and not calls and (written := _calls_in_text(content, tools)):
                content, calls = written.content, written.calls
        fields = {name: value for name, value in said.items() if value and _WANTED_BACK.search(name)}
        if kept:
            fields["content"] = kept
        return Message(
            role="assistant",
            content=content,
            tool_calls=with_own_ids(calls, sent),
            reasoning=reasoning,
            provider_fields=fields if calls else {},
        )


def wire(messages: Iterable[Message], tool_format: ToolFormat) -> list[dict[str, Any]]:
    """Messages in chat completions form: role, content and, in the `native` format, calls. Without the extra fields
    that an endpoint expects back, which concern only its client."""
    if tool_format == "hermes":
        return [{"role": message.role, "content": message.content} for message in messages]
    return [_native(message) for message in messages]


def _native(message: Message) -> dict[str, Any]:
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.tool_call_id, "content": message.content}
    sent: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        sent["tool_calls"] = [_native_call(call) for call in message.tool_calls]
    return sent


def _native_call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name or "unknown", "arguments": arguments_text(call)}
    return {"id": call.id, "type": "function", "function": function}


def _requested(messages: Sequence[Message], tool_format: ToolFormat, unwanted: frozenset[str]) -> list[dict[str, Any]]:
    """`wire` plus the fields that the endpoint expects back."""
    sent = wire(messages, tool_format)
    for row, message in zip(sent, messages, strict=True):
        if "tool_calls" not in row:
            continue
        row["content"] = row["content"] or None  # Bedrock refuses ""
        row |= _chosen(message.provider_fields, unwanted)
        for written, call in zip(row["tool_calls"], message.tool_calls, strict=True):
            written |= _chosen(call.provider_fields, unwanted)
    return sent


def _chosen(fields: Mapping[str, Any], unwanted: frozenset[str]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in unwanted and name not in OTHER_FORMATS}


_REFUSED = re.compile(
    r"unsupported|not supported|not support|unrecogni[sz]ed|unknown|not permitted|not allowed|unexpected|deprecated"
    r"|forbidden|extra (?:inputs?|fields?)|invalid (?:field|parameter|property|argument)|not a valid"
    r"|use '?max_completion"
)


def _fault(said: Mapping[str, Any]) -> str:
    """Why a message is not a reply: it is missing, or has content of an unusable type."""
    if not said:
        return "the reply has no message"
    content, calls = said.get("content"), said.get("tool_calls")
    if not isinstance(content, str | list | dict | NoneType):
        return f"the reply's content is {kind(content)}"
    if calls and not (isinstance(calls, list) and all(isinstance(each, Mapping) for each in calls)):
        return "the reply's tool calls are no list of calls"
    return ""


def _refuses(said: str, field: str) -> bool:
    """Whether an error message says that the endpoint does not accept that field."""
    return re.search(rf"(?<![a-z_]){re.escape(field)}(?![a-z_])", said) is not None and bool(_REFUSED.search(said))


def _returned_fields(body: Mapping[str, Any]) -> set[str]:
    """The names of the fields sent back from earlier replies."""
    names: set[str] = set()
    for message in map(mapping, items(body.get("messages"))):
        names |= message.keys() - {"role", "content", "tool_calls", "tool_call_id", "name"}
        for call in items(message.get("tool_calls")):
            names |= mapping(call).keys() - _OWN_FIELDS
    return names


def _without(row: object, unwanted: frozenset[str]) -> object:
    """A message of a request without fields that the endpoint does not accept back."""
    if not isinstance(row, Mapping):
        return row
    kept = {name: value for name, value in row.items() if name not in unwanted}
    if calls := items(kept.get("tool_calls")):
        kept["tool_calls"] = [{n: v for n, v in mapping(call).items() if n not in unwanted} for call in calls]
    return kept


def _fixed_fields(config: ModelConfig, model: str) -> dict[str, Any]:
    sampling = config.sampling.model_dump(mode="json", exclude={"max_tokens"})
    fields = config.extra_body | {"model": model}
    fields |= {name: value for name, value in sampling.items() if value is not None and value != []}
    if config.reasoning_effort:
        fields["reasoning_effort"] = config.reasoning_effort
    if config.token_ids:
        fields |= {"logprobs": True, "return_token_ids": True}
    return fields


def _calls(said: Mapping[str, Any]) -> Iterator[ToolCall]:
    calls = [each for each in items(said.get("tool_calls")) if isinstance(each, Mapping)]
    if not calls and isinstance(said.get("function_call"), Mapping):  # OpenAI's original form
        calls = [{"function": said["function_call"]}]
    for call in calls:
        function = mapping(call.get("function")) or call
        call_id = call.get("id")
        kept = {name: value for name, value in call.items() if value and _WANTED_BACK.search(name)}
        shown_id = str(call_id) if isinstance(call_id, str | int) and not isinstance(call_id, bool) else ""
        yield read_call(shown_id, text(function.get("name")), function.get("arguments"), kept)


def _calls_in_text(content: str, tools: Sequence[Mapping[str, Any]]) -> Found | None:
    """Calls written as bare JSON, which no server's parser reads. Models not trained on their template's format often
    do this."""
    found = bare_calls(split_reasoning(content).answer, {schema["function"]["name"] for schema in tools})
    return found if found.calls else None


def _content(content: object) -> tuple[str, str, list[Any]]:
    """The text, the reasoning among its parts, and the parts themselves if they are more than text."""
    if not isinstance(content, list):
        return text(content) or text(mapping(content).get("text")), "", []
    texts: list[str] = []
    thoughts: list[str] = []
    for each in content:
        kind = text(mapping(each).get("type"))
        if isinstance(each, str):
            texts.append(each)
        elif _WANTED_BACK.search(kind):
            thoughts.append(_words(each))
        else:
            texts.append(text(mapping(each).get("text")) or text(mapping(each).get("refusal")))
    return "".join(texts), "\n".join(filter(None, thoughts)), content if thoughts else []


def _reasoning(said: Mapping[str, Any]) -> str:
    """The reasoning in the first field that has any; some servers repeat it in several."""
    return next((found for name in _REASONING if (found := _words(said.get(name)))), "")


def _words(value: object) -> str:
    """The text of a reasoning field, be it text, parts, or an object."""
    if isinstance(value, list):
        return "".join(_words(each) for each in value)
    if isinstance(value, Mapping):
        return next(
            (
                found
                for name in ("text", "thinking", "summary", "reasoning", "content")
                if (found := _words(value.get(name)))
            ),
            "",
        )
    return text(value)


def _usage(usage: Mapping[str, Any]) -> Usage:
    prompt = count(usage.get("prompt_tokens")) or count(usage.get("input_tokens"))
    completion = count(usage.get("completion_tokens")) or count(usage.get("output_tokens"))
    reasoning = count(mapping(usage.get("completion_tokens_details")).get("reasoning_tokens"))
    total = count(usage.get("total_tokens"))
    apart = total - prompt - completion if prompt else 0
    if apart > 0:  # xAI counts reasoning separately, Gemini only in the total
        completion += apart
        reasoning = max(reasoning, apart)
    cached = (
        count(mapping(usage.get("prompt_tokens_details")).get("cached_tokens"))
        or count(usage.get("prompt_cache_hit_tokens"))
        or count(usage.get("cached_tokens"))
    )
    written = count(mapping(usage.get("prompt_tokens_details")).get("cache_write_tokens"))
    return Usage(
        prompt,
        completion,
        cached_tokens=min(cached, prompt),
        cache_write_tokens=min(written, prompt),
        reasoning_tokens=min(reasoning, completion),
        uncounted=int(not prompt),
    )


def _with_tokens(generation: Generation, reply: Mapping[str, Any], choice: Mapping[str, Any]) -> Generation:
    """Adds the sampler's token ids and log-probabilities. `prompt_token_ids` and `token_ids` are vLLM's fields."""
    prompt, sampled = reply.get("prompt_token_ids"), choice.get("token_ids")
    logprobs = [mapping(each).get("logprob") for each in items(mapping(choice.get("logprobs")).get("content"))]
    if not _are_ids(prompt) or not prompt or not _are_ids(sampled) or not mapping(choice.get("logprobs")):
        raise ModelError(
            "the server returns no token ids and log-probabilities; use vLLM, or set model.token_ids=false"
        )
    counts = (len(items(sampled)), len(logprobs), generation.usage.completion_tokens)
    if len(set(counts)) != 1:
        raise ModelError("the server returned {} token ids and {} log-probabilities for {} tokens".format(*counts))
    if not all(isinstance(each, int | float) and not isinstance(each, bool) for each in logprobs):
        raise ModelError("the server returned a log-probability that is not a number")
    return msgspec.structs.replace(
        generation,
        prompt_token_ids=tuple(items(prompt)),
        token_ids=tuple(items(sampled)),
        logprobs=tuple(float(each) for each in logprobs if each is not None),
    )


def _are_ids(value: object) -> bool:
    return isinstance(value, list) and all(type(each) is int and 0 <= each < 2**31 for each in value)
