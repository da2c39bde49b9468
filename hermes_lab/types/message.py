"""What goes to a model and what comes back."""

from typing import Any, Literal

from msgspec import Struct

Role = Literal["system", "user", "assistant", "tool"]


class ToolCall(Struct, frozen=True, omit_defaults=True):
    """One tool call as the model wrote it.

    A call that could not be parsed keeps its text in `raw` and says why in `error`; it is answered with that error and
    never executed. `provider_fields` are fields beside the call that its endpoint wants back, such as a signature.
    """

    id: str
    name: str
    arguments: dict[str, Any] = {}
    error: str = ""
    raw: str = ""
    provider_fields: dict[str, Any] = {}


class ToolResult(Struct, frozen=True, omit_defaults=True):
    """The answer to one tool call. `content` is JSON; a failure is the object `{"error": ...}`.

    `executed` is False for a call that was refused before it could do anything: unknown tool, broken JSON, arguments
    that fail the schema, or a tool that is not allowed here.
    """

    call_id: str
    name: str
    content: str
    ok: bool = True
    executed: bool = True
    seconds: float = 0.0


class Message(Struct, frozen=True, omit_defaults=True):
    """One turn; `role` and `content` are exactly what was sent to, or sampled from, the model.

    In the Hermes text format a tool call stands in an assistant's `content` and a tool's answer is a user turn; the
    structured fields beside them (`tool_calls`, `results`) are then bookkeeping that is not sent.

    `content` may hold reasoning between tags, as it was sampled: `hermes_lab.models.answer` tells the answer from it.
    `reasoning` is the model's reasoning, from whichever place it came. `provider_fields` are the parts of a reply that
    its endpoint wants back with the next request, as they were received: reasoning fields, signed thinking blocks.
    """

    role: Role
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()
    tool_call_id: str = ""
    reasoning: str = ""
    provider_fields: dict[str, Any] = {}


class Usage(Struct, frozen=True, omit_defaults=True):
    """Tokens as the server counted them, summed over calls.

    `cached_tokens` (read from a prompt cache) and `cache_write_tokens` (written to one) are part of `prompt_tokens`;
    `reasoning_tokens` are part of `completion_tokens`.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cached_tokens + other.cached_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
        )


class Recorded(Struct, frozen=True):
    """What a recording tells of the time after a reply: the answers to its calls, and the budget that then ended, if
    any did."""

    answers: tuple[ToolResult, ...] = ()
    spent: str = ""


class Generation(Struct, frozen=True):
    """One model reply.

    `finish_reason` is one of `hermes_lab.models.finish.ENDINGS`, whatever the endpoint's own word is.
    `prompt_token_ids`, `token_ids` and `logprobs` (natural log, one for each of `token_ids`) are what the sampler
    returned; all three are empty where the server does not give them. They are never made by tokenising text.
    `retries` counts the tries that failed before this reply was had. `then` is there where the reply is recorded.
    """

    message: Message
    finish_reason: str = "stop"
    usage: Usage = Usage()
    prompt_token_ids: tuple[int, ...] = ()
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    retries: int = 0
    then: Recorded | None = None
