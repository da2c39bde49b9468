"""What happened between a prompt and the end of an episode."""

from typing import Any, Literal

from msgspec import Struct

from hermes_lab.types.message import Message, Usage

StopReason = Literal["answered", "empty", "length", "max_iterations", "max_seconds", "max_tokens", "context_full"]
"""`answered`: a final answer without tool calls. `empty`: a reply with neither text nor calls. `length`: the reply was
cut at its token limit before it was a call or an answer. The rest are budgets; after `max_iterations` the grace call
may still have given a final response."""
ToolFormat = Literal["native", "hermes"]


class Step(Struct, frozen=True, omit_defaults=True):
    """One model call. `message` is the index of the assistant turn that it produced."""

    message: int
    finish_reason: str
    usage: Usage
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
    """The whole conversation, system prompt and tool schemas included, as the model saw and wrote it."""

    messages: tuple[Message, ...]
    tools: tuple[dict[str, Any], ...]
    tool_format: ToolFormat
    stop_reason: StopReason
    steps: tuple[Step, ...] = ()
    branches: tuple[TokenBranch, ...] = ()
    usage: Usage = Usage()
    final_response: str | None = None
