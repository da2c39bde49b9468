"""What happened between the prompt and the end of an episode."""

from typing import Any, Literal

from msgspec import Struct

from hermes_lab.types.message import Message, Usage

Budget = Literal["max_iterations", "max_seconds", "max_tokens", "max_cost"]
StopReason = (
    Literal[
        "answered", "empty", "length", "filtered", "refused", "unparsed", "context_full", "repeated", "ended", "failed"
    ]
    | Budget
)
"""How the work on a submission ended.

- `answered`: a final answer without tool calls.
- `empty`: a reply with neither an answer nor calls, or with reasoning only.
- `length`: the reply reached its token limit before a call or an answer.
- `filtered`: the endpoint's content filter withheld or cut the reply.
- `refused`: the endpoint marked the reply as a refusal.
- `unparsed`: the text is a tool call in a format that is not parsed (`model.tool_parser`, `agent.tool_format`).
- `context_full`: the prompt no longer fits the model.
- `repeated`: the same call got the same result `agent.max_repeats` times in a row.
- `ended`: a program ended before its conversation had an answer, such as at a limit of its own.
- `failed`: an infrastructure failure or a bug, in reviews only.

The others are budgets. The grace call after a budget or after `repeated` may still give a final response.
"""
ToolFormat = Literal["native", "hermes"]


class Step(Struct, frozen=True, omit_defaults=True):
    """One model call. `message` is the index of the resulting assistant message; `retries` counts failed tries."""

    message: int
    finish_reason: str
    usage: Usage
    seconds: float = 0.0
    retries: int = 0


class Compression(Struct, frozen=True, omit_defaults=True):
    """A compression of the context.

    From then on, the message at index `at` replaced `messages[start:end]` and all earlier summaries. The summary was
    written from at most `room` characters of each message; `usage` is the cost of writing it.
    """

    at: int
    start: int
    end: int
    room: int
    usage: Usage = Usage()
    seconds: float = 0.0


class TokenBranch(Struct, frozen=True):
    """One unbroken token sequence.

    All three tuples have length T. `mask` is 1 on sampled tokens and 0 on prompt, template and tool tokens; `logprobs`
    is the sampler's natural log-probability where the mask is 1, and 0.0 elsewhere. A prompt that does not extend the
    previous tokens starts a new branch.
    """

    token_ids: tuple[int, ...]
    mask: tuple[int, ...]
    logprobs: tuple[float, ...]


class Trajectory(Struct, frozen=True, omit_defaults=True):
    """The whole conversation in order, with system prompt and tool schemas, exactly as the model saw and wrote it.

    `compressions` says which messages the model no longer saw, and from when on.
    """

    messages: tuple[Message, ...]
    tools: tuple[dict[str, Any], ...]
    tool_format: ToolFormat
    stop_reason: StopReason
    steps: tuple[Step, ...] = ()
    branches: tuple[TokenBranch, ...] = ()
    usage: Usage = Usage()
    final_response: str | None = None
    compressions: tuple[Compression, ...] = ()
