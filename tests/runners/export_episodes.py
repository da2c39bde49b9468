"""Made-up runs of very different episodes, for the tests of exports."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from fakes.episodes import episode, trajectory, with_review, write_run

from hermes_lab.manifest import RunManifest
from hermes_lab.records import write_json
from hermes_lab.types import (
    Compression,
    Episode,
    EpisodeError,
    Message,
    ModelIdentity,
    Reward,
    SkillUse,
    Step,
    TaskInfo,
    TokenBranch,
    ToolCall,
    ToolResult,
    Trajectory,
    Usage,
    Verdict,
)

STARTED = "2026-01-02T03:04:05.678+00:00"
TOOLS = (
    {
        "type": "function",
        "function": {
            "name": "terminal",
            "description": "Runs a command. The tags <tools> and </tool_call> are only words here.",
            "parameters": {"type": "object", "properties": {"timeout": {"type": "number", "default": 180.0}}},
        },
    },
    {
        "type": "function",
        "function": {
            "name": "read_file",
            "description": "Reads.",
            "parameters": {"type": "object", "properties": {"path": {"type": ["string", "null"], "default": "a"}}},
        },
    },
)


def answer(call_id: str, name: str, content: str, **fields: Any) -> Message:
    """A native tool message."""
    return Message(
        role="tool", content=content, results=(ToolResult(call_id, name, content, **fields),), tool_call_id=call_id
    )


NATIVE = (
    Message(role="system", content="You use tools."),
    Message(role="user", content="Count the files."),
    Message(
        role="assistant",
        content="I look.",
        reasoning="Two at once.",
        tool_calls=(
            ToolCall("call_a", "terminal", {"command": "ls | wc -l"}),
            ToolCall("call_b", "read_file", {"path": "a", "limit": 5}),
        ),
    ),
    answer("call_a", "terminal", '{"output": "3\\n", "exit_code": 0}'),
    answer("call_b", "read_file", '{"error": "a: no such file"}', ok=False),
    Message(
        role="assistant",
        tool_calls=(ToolCall("call_c", "terminal", error="invalid tool call: not JSON", raw='{"command": "ls'),),
    ),
    answer("call_c", "terminal", '{"error": "invalid tool call: not JSON"}', ok=False, executed=False),
    Message(role="assistant", content="There are 3."),
)
WELL_FORMED = (*NATIVE[:5], NATIVE[7])
"""Without the call that was no JSON."""
BRANCH = TokenBranch((1, 2, 3, 4, 5, 6, 7, 8), (0, 0, 1, 1, 0, 1, 0, 1), (0.0, 0.0, -0.5, -0.25, 0.0, -1.0, 0.0, -2.0))


def native(task_id: str = "native", messages: Sequence[Message] = NATIVE, **fields: Any) -> Episode:
    """A scored episode in the native format, with usage and token ids."""
    usages = (Usage(2, 2), Usage(5, 1), Usage(7, 1))
    replies = [i for i, message in enumerate(messages) if message.role == "assistant"]
    steps = tuple(Step(i, "stop", usage, 0.5) for i, usage in zip(replies, usages, strict=False))
    whole = Trajectory(
        messages=tuple(messages),
        tools=TOOLS,
        tool_format="native",
        stop_reason="answered",
        steps=steps,
        branches=(BRANCH,) if len(steps) == 3 else (),
        usage=Usage(14, 4),
        final_response=messages[-1].content,
    )
    usual: dict[str, Any] = {
        "started_at": STARTED,
        "score": 1.0,
        "success": True,
        "reward": Reward(1.0, {"score": 1.0}),
        "model": ModelIdentity("vllm", "m", "http://127.0.0.1:1/v1", "sft-v1", "feed"),
        "skills": SkillUse("5a5a", ("tidy",), ("tidy",)),
        "metrics": {"tool_calls": 3.0},
        "trajectory": whole,
    }
    return episode(task_id, **{**usual, **fields})


def say(text: str, **fields: Any) -> Trajectory:
    """A trajectory without tools: a prompt and an answer."""
    messages = (Message(role="user", content="Say something."), Message(role="assistant", content=text))
    return trajectory(messages, **fields)


def errored(task_id: str = "errored") -> Episode:
    """An episode that the infrastructure stopped."""
    return episode(task_id, status="errored", trajectory=None, verdicts=(), error=EpisodeError("model", "down"))


def compressed() -> Episode:
    """An episode in which message 2 was replaced by the summary at 4."""
    messages = (
        *(Message(role=r, content=c) for r, c in (("system", "S"), ("user", "Do."), ("assistant", "a"))),
        Message(role="user", content="go on"),
        Message(role="user", content="[Summary] a"),
        Message(role="assistant", content="Done."),
    )
    cut = Compression(at=4, start=2, end=3, room=100, usage=Usage(9, 3))
    return episode("long", started_at=STARTED, trajectory=trajectory(messages, compressions=(cut,)))


def mixed() -> list[Episode]:
    """Native and text format, with and without calls, several samples, held out, errored, not judged, compressed."""
    text = msgspec.structs.replace(with_review("text"), started_at=STARTED, score=0.0, success=False)
    return [
        episode("plain", started_at=STARTED, verdicts=(), trajectory=say("<b>1 & 1 < 2</b> \u2028\n")),
        errored(),
        text,
        native(),
        native(sample=1, score=0.0, verdicts=(Verdict(0.0, False),), messages=(*NATIVE[:-1], NATIVE[-1])),
        native("other", task=TaskInfo("d", "held-out", 1, metadata={"rows": 3, "note": "n"})),
        compressed(),
    ]


def make_run(folder: Path, *episodes: Episode) -> Path:
    """A whole run folder."""
    manifest = RunManifest(
        command="run",
        config={},
        config_digest="c0ffee",
        tasks_digest="t",
        wanted=len(episodes),
        created_at=STARTED,
        versions={},
    )
    write_run(folder, *episodes)
    write_json(folder / "run.json", manifest)
    return folder


def decoded(path: Path) -> list[dict[str, Any]]:
    """The rows of a JSON Lines file."""
    return [json.loads(line) for line in path.read_text().split("\n") if line]
