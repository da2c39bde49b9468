"""Messages to and from a model."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

Role = Literal["system", "user", "assistant", "tool"]
Tokens = Annotated[int, Meta(le=2**63 - 1)]
"""A number of tokens. Tables hold 64 bits."""


class ToolCall(Struct, frozen=True, omit_defaults=True):
    """One tool call as written by the model.

    A call that could not be parsed has its text in `raw` and the reason in `error`; it is answered with that error and
    never executed. `provider_fields` are additional fields of the call that the endpoint expects back, such as a
    signature.
    """

    id: str
    name: str
    arguments: dict[str, Any] = {}
    error: str = ""
    raw: str = ""
    provider_fields: dict[str, Any] = {}


class ToolResult(Struct, frozen=True, omit_defaults=True):
    """The result of one tool call. `content` is JSON; a failure is the object `{"error": ...}`.

    `executed` is False for a call refused before execution: unknown tool, invalid JSON or arguments, or a tool that is
    not allowed.
    """

    call_id: str
    name: str
    content: str
    ok: bool = True
    executed: bool = True
    seconds: float = 0.0


class Message(Struct, frozen=True, omit_defaults=True):
    """One message; `role` and `content` are exactly as sent to, or sampled from, the model.

    In the Hermes text format a tool call is part of an assistant's `content`, and its result is a user message;
    `tool_calls` and `results` are then bookkeeping that is not sent.

    `content` may contain reasoning between tags, as sampled; `hermes_lab.models.reasoning` separates it from the
    answer. `reasoning` is the model's reasoning from any source. `provider_fields` are parts of a reply, as received,
    that the endpoint expects back with the next request: reasoning fields, signed thinking blocks.
    """

    role: Role
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()
    tool_call_id: str = ""
    reasoning: str = ""
    provider_fields: dict[str, Any] = {}


class Usage(Struct, frozen=True, omit_defaults=True):
    """Token counts as reported by the server, summed over calls.

    `cached_tokens` (read from a prompt cache) and `cache_write_tokens` (written to one) are included in
    `prompt_tokens`; `reasoning_tokens` are included in `completion_tokens`. `uncounted` is the number of calls whose
    prompt the server did not count, mostly for want of any `usage`: the other counts leave them out.
    """

    prompt_tokens: Tokens = 0
    completion_tokens: Tokens = 0
    cached_tokens: Tokens = 0
    cache_write_tokens: Tokens = 0
    reasoning_tokens: Tokens = 0
    uncounted: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cached_tokens + other.cached_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            self.uncounted + other.uncounted,
        )


class Recorded(Struct, frozen=True):
    """What followed a reply in a recording: the results of its calls, and the budget that then ended, if any."""

    answers: tuple[ToolResult, ...] = ()
    spent: str = ""


class Generation(Struct, frozen=True):
    """One model reply.

    `finish_reason` is one of `hermes_lab.models.finish.ENDINGS`, mapped from the endpoint's own word.
    `prompt_token_ids`, `token_ids` and `logprobs` (natural log, one per token id) are as returned by the sampler, or
    all empty if the server does not return them. They never come from tokenising text. `retries` counts failed tries.
    `then` is set if the reply is replayed from a recording.
    """

    message: Message
    finish_reason: str = "stop"
    usage: Usage = Usage()
    prompt_token_ids: tuple[int, ...] = ()
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    retries: int = 0
    then: Recorded | None = None
