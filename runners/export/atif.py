"""`atif`: Harbor's Agent Trajectory Interchange Format v1.8, one JSON file per episode."""

import hashlib
import re
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec

from hermes_lab.models.reasoning import split_reasoning
from hermes_lab.runners.export.metadata import metadata
from hermes_lab.runners.export.source import Source
from hermes_lab.types import Episode, Message, Step, ToolCall, ToolResult, Trajectory, Usage

SCHEMA = "ATIF-v1.8"
Tokens = tuple[tuple[int, ...], tuple[int, ...], tuple[float, ...]]
"""Of one reply: the token ids of its prompt, its own token ids, and their log-probabilities."""


def write(source: Source, folder: Path) -> int:
    """Writes a file per finished episode, named after its key; returns their number."""
    count = 0
    for episode, trajectory in source.finished():
        document = msgspec.json.encode(trajectory_document(episode, trajectory))
        (folder / file_name(episode.key)).write_bytes(document + b"\n")
        count += 1
    return count


def file_name(key: str) -> str:
    """A readable and unique file name for an episode's key."""
    readable = re.sub(r"[^A-Za-z0-9.-]+", "_", key)[:120].lstrip(".")
    return f"{readable}-{hashlib.sha256(key.encode()).hexdigest()[:8]}.json"


def trajectory_document(episode: Episode, trajectory: Trajectory) -> dict[str, Any]:
    """One ATIF document. Counts that were not recorded, such as tokens of a scripted model, are left out."""
    steps = list(_steps(trajectory))
    steps[0]["timestamp"] = episode.started_at
    model, program = episode.model, episode.program
    lab = version("hermes-lab")
    return {
        "schema_version": SCHEMA,
        "session_id": episode.key,
        "trajectory_id": episode.key,
        "agent": {
            "name": program.name if program else "hermes-lab",
            "version": (program.version or "unknown") if program else lab,
            "model_name": model.name,
            "tool_definitions": list(trajectory.tools),
            "extra": {
                "provider": model.provider,
                "adapter": model.adapter,
                "adapter_digest": model.adapter_digest,
                "tool_format": trajectory.tool_format,
                **({"harness": f"hermes-lab {lab}", "digest": program.digest} if program else {}),
            },
        },
        "steps": [{"step_id": number, **step} for number, step in enumerate(steps, 1)],
        "final_metrics": _counted(trajectory.usage, "total_")
        | {"total_steps": len(steps), "extra": {"seconds": episode.seconds, **episode.metrics}},
        "extra": metadata(episode, trajectory),
    }


def _steps(trajectory: Trajectory) -> Iterator[dict[str, Any]]:
    """One step per message, except that tool results become the observation of the step that made the calls."""
    calls = {step.message: step for step in trajectory.steps}
    tokens = dict(zip(calls, _tokens(trajectory), strict=False))
    summaries = {one.at: one for one in trajectory.compressions}
    messages = trajectory.messages
    for index, message in enumerate(messages):
        if message.results:
            continue
        if message.role == "assistant":
            results = list(_results_after(messages, index))
            in_text = trajectory.tool_format == "hermes" and bool(message.tool_calls)
            yield _agent_step(message, results, calls.get(index), tokens.get(index), in_text=in_text)
        else:
            step: dict[str, Any] = {"source": message.role, "message": message.content}
            if index in summaries:
                step["extra"] = {"summary_of": [summaries[index].start, summaries[index].end]}
            yield step


def _results_after(messages: Sequence[Message], index: int) -> Iterator[ToolResult]:
    for message in messages[index + 1 :]:
        if not message.results:
            return
        yield from message.results


def _agent_step(
    message: Message, results: Sequence[ToolResult], call: Step | None, tokens: Tokens | None, *, in_text: bool
) -> dict[str, Any]:
    # In the text format, keep the full text as sampled, including its calls.
    text = message.content if in_text else split_reasoning(message.content).answer
    step: dict[str, Any] = {"source": "agent", "message": text, "llm_call_count": 1}
    if text != message.content:
        step["extra"] = {"content": message.content}
    if message.reasoning:
        step["reasoning_content"] = message.reasoning
    if message.tool_calls:
        step["tool_calls"] = [_tool_call(one) for one in message.tool_calls]
    if results:
        ids = {one.id for one in message.tool_calls}
        step["observation"] = {"results": [_observed(result, ids) for result in results]}
    if call:
        step["metrics"] = _metrics(call, tokens)
    return step


def _tool_call(call: ToolCall) -> dict[str, Any]:
    written: dict[str, Any] = {
        "tool_call_id": call.id,
        "function_name": call.name or "unknown",
        "arguments": call.arguments,
    }
    return written | ({"extra": {"error": call.error, "raw": call.raw}} if call.error else {})


def _observed(result: ToolResult, ids: set[str]) -> dict[str, Any]:
    extra = {"name": result.name, "ok": result.ok, "executed": result.executed, "seconds": result.seconds}
    source = {"source_call_id": result.call_id} if result.call_id in ids else {}
    return source | {"content": result.content, "extra": extra}


def _metrics(call: Step, tokens: Tokens | None) -> dict[str, Any]:
    metrics = _counted(call.usage)
    if tokens:
        metrics |= dict(zip(("prompt_token_ids", "completion_token_ids", "logprobs"), tokens, strict=True))
    extra = {"finish_reason": call.finish_reason, "seconds": call.seconds, "retries": call.retries}
    return metrics | {"extra": extra}


def _counted(usage: Usage, prefix: str = "") -> dict[str, Any]:
    if usage == Usage() or usage.uncounted:
        return {}
    return {
        f"{prefix}prompt_tokens": usage.prompt_tokens,
        f"{prefix}completion_tokens": usage.completion_tokens,
    }


def _tokens(trajectory: Trajectory) -> list[Tokens]:
    """The tokens of each model call in order; empty unless they cover every call."""
    found: list[Tokens] = []
    for branch in trajectory.branches:
        at = 0
        for sampled, run in groupby(branch.mask):
            end = at + len(list(run))
            if sampled:
                found.append((branch.token_ids[:at], branch.token_ids[at:end], branch.logprobs[at:end]))
            at = end
    counts = [step.usage.completion_tokens for step in trajectory.steps]
    return found if [len(ids) for _, ids, _ in found] == counts else []
