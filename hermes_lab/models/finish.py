"""Maps the finish reasons of all endpoints to the few that matter."""

from collections.abc import Collection
from typing import Literal

Ending = Literal["stop", "tool_calls", "length", "content_filter", "refusal", "malformed_call", "failed", "unknown"]
"""`stop` and `tool_calls`: complete. `length`: cut at a limit. `content_filter`: withheld or cut by a filter.
`refusal`: marked as a refusal by the endpoint. `malformed_call`: the endpoint could not parse the model's call.
`failed`: the server gave up. `unknown`: not listed here, or missing; never counts as complete."""

SOUND: frozenset[Ending] = frozenset({"stop", "tool_calls"})
"""The endings of a complete reply."""
ENDINGS: dict[Ending, frozenset[str]] = {
    # OpenAI and compatible servers; TGI and Together; Anthropic; Gemini; Cohere; Bedrock; Responses.
    "stop": frozenset(
        {"stop", "eos", "eos_token", "end", "end_turn", "end_of_turn", "stop_sequence", "complete", "completed"}
    ),
    "tool_calls": frozenset({"tool_calls", "tool_call", "function_call", "tool_use"}),
    "length": frozenset(
        {"length", "max_tokens", "max_output_tokens", "max_completion_tokens", "max_length", "model_length"}
        | {"model_context_window_exceeded", "context_length", "incomplete", "repetition"}
    ),
    "content_filter": frozenset(
        {"content_filter", "content_filtered", "safety", "recitation", "blocklist", "prohibited_content", "spii"}
        | {"sensitive", "image_safety", "language", "guardrail_intervened", "error_toxic"}
    ),
    "refusal": frozenset({"refusal"}),
    "failed": frozenset(
        {"error", "abort", "aborted", "cancelled", "canceled", "failed", "network_error", "timeout", "load", "unload"}
        | {"insufficient_system_resource", "server_error", "model_error", "other"}
    ),
    "malformed_call": frozenset(
        {"malformed_function_call", "unexpected_tool_call", "invalid_tool_call", "malformed_tool_use"}
        | {"malformed_model_output"}
    ),
}

_BY_WORD = {word: ending for ending, words in ENDINGS.items() for word in (ending, *words)}


def ending_of(reason: object, sound: Collection[str] = ()) -> Ending:
    """Classifies a finish `reason`, ignoring case.

    `sound` are additional reasons that mean a complete reply at this endpoint (`model.finish_reasons`); `null` stands
    for a missing reason.
    """
    name = reason.strip().lower() if isinstance(reason, str) else "null" if reason is None else ""
    if sound and name in {each.lower() for each in sound}:
        return "stop"
    word, colon, _ = name.partition(": ")  # Gemini writes `content_filter: PROHIBITED_CONTENT`
    ending = _BY_WORD.get(word, "unknown")
    return "unknown" if colon and ending in SOUND else ending
