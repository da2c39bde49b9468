"""How a reply ends the work on a submission, and which answer it gives."""

from collections.abc import Collection, Mapping, Sequence

from hermes_lab.errors import ModelError
from hermes_lab.models.finish import SOUND, Ending, ending_of
from hermes_lab.models.reasoning import split_reasoning
from hermes_lab.models.unread import family_of
from hermes_lab.types import Message, Step
from hermes_lab.types.trajectory import StopReason

_NO_ANSWER: Mapping[Ending, StopReason] = {
    "length": "length",
    "content_filter": "filtered",
    "refusal": "refused",
    "malformed_call": "unparsed",
}
_WITHOUT_ANSWER = frozenset({"empty", "length", "filtered", "refused", "unparsed", "context_full", "failed"})


def stop_of(content: str, finish_reason: str, tools: Collection[str]) -> StopReason:
    """Classifies a reply without tool calls: an answer must be complete and contain more than reasoning. `tools` are
    the names of those that were offered. Raises `ModelError` for an unknown `finish_reason`."""
    ending = ending_of(finish_reason)
    if ending in _NO_ANSWER:
        return _NO_ANSWER[ending]
    if ending not in SOUND:
        raise ModelError(f"the reply ended with {finish_reason!r}: this is not the end of a complete reply")
    if not (answer := split_reasoning(content).answer).strip():
        return "empty"
    return "unparsed" if tools and family_of(answer, tools) else "answered"


def final_response(
    messages: Sequence[Message], steps: Sequence[Step], stop: StopReason, tools: Collection[str]
) -> str | None:
    """The final answer without its reasoning. A truncated, empty or tool-calling reply is not a final answer."""
    if stop in _WITHOUT_ANSWER or not steps:
        return None
    last = messages[-1]
    if last.role != "assistant" or last.tool_calls or ending_of(steps[-1].finish_reason) not in SOUND:
        return None
    prompts = (message.content for message in messages if message.role in ("system", "user"))
    answer = split_reasoning(last.content, prompts).answer
    if not answer.strip() or (tools and family_of(answer, tools)):
        return None
    return answer
