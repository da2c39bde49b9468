"""What happened between a prompt and the end of an episode."""

from typing import Any, Literal

from msgspec import Struct

from hermes_lab.types.message import Message, Usage

Budget = Literal["max_iterations", "max_seconds", "max_tokens", "max_cost"]
StopReason = (
    Literal["answered", "empty", "length", "filtered", "refused", "unparsed", "context_full", "repeated", "failed"]
    | Budget
)
"""How the work on a submission ended.

- `answered`: a final answer without tool calls.
- `empty`: a reply with neither an answer nor calls; one of reasoning alone is empty.
- `length`: the reply was cut at its token limit before it was a call or an answer.
- `filtered`: the endpoint's content filter withheld or cut the reply.
- `refused`: the endpoint marked the reply as a refusal.
- `unparsed`: the reply's text is a tool call in a format that is not read here (`model.tool_parser`,
  `agent.tool_format`).
- `context_full`: the prompt no longer fits the model.
- `repeated`: the same call got the same result `agent.max_repeats` times in a row.
- `failed`: the infrastructure or a bug, of a review alone.

The rest are budgets; the grace call after one of them, or after `repeated`, may still have given a final response."""
ToolFormat = Literal["native", "hermes"]


class Step(Struct, frozen=True, omit_defaults=True):
    """One model call. `message` is the index of the assistant turn that it produced; `retries` counts the tries that
    failed before it."""

    message: int
    finish_reason: str
    usage: Usage
    seconds: float = 0.0
    retries: int = 0


class Compression(Struct, frozen=True, omit_defaults=True):
    """From here on `messages[start:end]`, and every earlier summary, were no longer sent: the message at index `at`, a
    summary of them, stood in their place. The summary was written from at most `room` characters of each of them;
    `usage` is that of writing it."""

    at: int
    start: int
    end: int
    room: int
    usage: Usage = Usage()
    seconds: float = 0.0


class TokenBranch(Struct, frozen=True):
    """One unbroken token sequence.

    All three have length T. `mask` is 1 on tokens that the model sampled and 0 on prompt, template and tool tokens;
    `logprobs` is the sampler's natural log-probability where the mask is 1, and 0.0 elsewhere. A prompt that does not
    extend the tokens before it begins a new branch.
    """

    token_ids: tuple[int, ...]
    mask: tuple[int, ...]
    logprobs: tuple[float, ...]


class Trajectory(Struct, frozen=True, omit_defaults=True):
    """The whole conversation, system prompt and tool schemas included, as the model saw and wrote it, in the order in
    which it happened. Where it was compressed, `compressions` tells which turns the model saw no more."""

    messages: tuple[Message, ...]
    tools: tuple[dict[str, Any], ...]
    tool_format: ToolFormat
    stop_reason: StopReason
    steps: tuple[Step, ...] = ()
    branches: tuple[TokenBranch, ...] = ()
    usage: Usage = Usage()
    final_response: str | None = None
    compressions: tuple[Compression, ...] = ()
