"""The chat-completions wire format: messages to JSON objects, a reply's bytes to a `Generation`."""

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any

import msgspec

from hermes_lab.errors import ModelError
from hermes_lab.models.hermes_format import Reply, parse_arguments
from hermes_lab.types import Generation, Message, ToolCall, Usage
from hermes_lab.types.trajectory import ToolFormat


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: Any = None


class _Call(msgspec.Struct):
    id: str | None = None
    function: _Function = msgspec.field(default_factory=_Function)


class _Message(msgspec.Struct):
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[_Call] | None = None


class _Logprob(msgspec.Struct):
    logprob: float


class _Logprobs(msgspec.Struct):
    content: list[_Logprob] | None = None


class _Choice(msgspec.Struct):
    message: _Message
    finish_reason: str | None = None
    logprobs: _Logprobs | None = None
    token_ids: list[int] | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: Annotated[int, msgspec.Meta(ge=0)] = 0
    completion_tokens: Annotated[int, msgspec.Meta(ge=0)] = 0


class _Completion(msgspec.Struct):
    """What is read of a reply. `prompt_token_ids` and `token_ids` are vLLM's additions to OpenAI's fields."""

    choices: list[_Choice]
    model: str | None = None
    usage: _Usage | None = None
    prompt_token_ids: list[int] | None = None


_decoder = msgspec.json.Decoder(_Completion)


def wire(messages: Iterable[Message], tool_format: ToolFormat) -> list[dict[str, Any]]:
    """The request's `messages`: role and content; and calls, where the format is `native`."""
    if tool_format == "hermes":
        return [{"role": message.role, "content": message.content} for message in messages]
    return [_native(message) for message in messages]


def read_reply(
    content: bytes,
    sent: Sequence[Message],
    *,
    tool_format: ToolFormat,
    token_ids: bool,
    adapter: str = "",
    read_text: Callable[[str], Reply] | None = None,
) -> Generation:
    """A reply to the messages `sent`. Raises `ModelError` where the bytes are no complete reply, or not `adapter`'s,
    where one was asked: an endpoint may answer with other weights than were asked for, but says so.

    In the `hermes` format the text stays whole; whoever runs the calls reads them from it. In the `native` format
    `read_text`, where given, reads the calls that the server left in the text.
    """
    try:
        reply = _decoder.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ModelError(f"the reply is no chat completion: {error}") from None
    if not reply.choices:
        raise ModelError("the reply has no choices")
    if adapter and reply.model != adapter:
        raise ModelError(f"the adapter {adapter} was asked, but {reply.model or 'a model without a name'} answered")
    choice = reply.choices[0]
    text, reasoning = choice.message.content or "", choice.message.reasoning or choice.message.reasoning_content or ""
    calls: Sequence[ToolCall] = ()
    if tool_format == "native" and read_text:
        text, thought, calls = read_text(text)
        reasoning = reasoning or thought
    elif tool_format == "native":
        calls = [_call(call.id or "", call.function) for call in choice.message.tool_calls or ()]
    message = Message(role="assistant", content=text, tool_calls=_with_own_ids(calls, sent), reasoning=reasoning)
    usage = reply.usage or _Usage()
    generation = Generation(
        message, choice.finish_reason or "stop", Usage(usage.prompt_tokens, usage.completion_tokens)
    )
    return _with_tokens(generation, reply, choice) if token_ids else generation


def _native(message: Message) -> dict[str, Any]:
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.tool_call_id, "content": message.content}
    sent: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        sent["tool_calls"] = [_native_call(call) for call in message.tool_calls]
    return sent


def _native_call(call: ToolCall) -> dict[str, Any]:
    """A call whose arguments were no JSON goes back without any: servers refuse or drop the broken text."""
    arguments = msgspec.json.encode(call.arguments).decode()
    return {"id": call.id, "type": "function", "function": {"name": call.name or "unknown", "arguments": arguments}}


def _with_own_ids(calls: Sequence[ToolCall], sent: Sequence[Message]) -> tuple[ToolCall, ...]:
    """The calls of a reply. No two of a conversation share an id; some servers count from 0 each time. Nine letters and
    digits are an id that every chat template takes."""
    taken = {call.id for message in sent for call in message.tool_calls}
    own: list[ToolCall] = []
    for number, call in enumerate(calls):
        if not call.id or call.id in taken:
            call = msgspec.structs.replace(call, id=f"call{len(sent):03d}{number:02d}")
        taken.add(call.id)
        own.append(call)
    return tuple(own)


def _call(call_id: str, function: _Function) -> ToolCall:
    name = function.name or "unknown"
    try:
        if not function.name:
            raise ValueError("it names no function")
        return ToolCall(call_id, name, parse_arguments(function.arguments))
    except (ValueError, RecursionError) as error:
        raw = function.arguments if isinstance(function.arguments, str) else str(function.arguments)
        return ToolCall(call_id, name, error=f"invalid tool call: {error}", raw=raw)


def _with_tokens(generation: Generation, reply: _Completion, choice: _Choice) -> Generation:
    logprobs = choice.logprobs.content if choice.logprobs else None
    if not reply.prompt_token_ids or choice.token_ids is None or logprobs is None:
        raise ModelError(
            "the server gives no token ids and log-probabilities; vLLM does, else set model.token_ids=false"
        )
    counts = (len(choice.token_ids), len(logprobs), generation.usage.completion_tokens)
    if len(set(counts)) != 1:
        raise ModelError("the server counts {} token ids, {} log-probabilities, {} tokens".format(*counts))
    return msgspec.structs.replace(
        generation,
        prompt_token_ids=tuple(reply.prompt_token_ids),
        token_ids=tuple(choice.token_ids),
        logprobs=tuple(token.logprob for token in logprobs),
    )
