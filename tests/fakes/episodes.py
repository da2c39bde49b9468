"""Synthetic episodes, as records of a real run."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import msgspec

from hermes_lab.envs.groups import build_groups
from hermes_lab.manifest import RunManifest
from hermes_lab.records import EpisodeLog, write_json
from hermes_lab.types import (
    Episode,
    Message,
    ModelIdentity,
    Review,
    Reward,
    ScoredGroup,
    Step,
    TaskInfo,
    TokenBranch,
    ToolCall,
    ToolResult,
    Trajectory,
    Usage,
    Verdict,
)

CALL = '<tool_call>\n{"name": "terminal", "arguments": {"command": "ls"}}\n</tool_call>'
RESULT = ToolResult("call_0", "terminal", '{"output": "a.csv"}')
BRANCH = TokenBranch((1, 2, 3), (0, 1, 1), (0.0, -0.5, -0.1))
"""A prompt of one token, and a reply of two."""


def conversation(prompt: str, result: ToolResult = RESULT) -> tuple[Message, ...]:
    """A system turn, a prompt, a call with its result, and an answer."""
    calls = (ToolCall("call_0", "terminal", {"command": "ls"}),)
    return (
        Message(role="system", content="You use tools."),
        Message(role="user", content=prompt),
        Message(role="assistant", content=CALL, tool_calls=calls),
        Message(role="user", content=f"<tool_response>\n{result.content}\n</tool_response>", results=(result,)),
        Message(role="assistant", content=f"Done: {prompt}."),
    )


def trajectory(messages: Sequence[Message], since: int = 0, **fields: Any) -> Trajectory:
    """The trajectory that an agent records for `messages`; a review records those from `since` on."""
    steps = [Step(i, "stop", Usage()) for i, m in enumerate(messages) if m.role == "assistant" and i >= since]
    whole = Trajectory(
        messages=tuple(messages[since:]),
        tools=(),
        tool_format="hermes",
        stop_reason="answered",
        steps=tuple(steps),
        final_response=messages[-1].content,
    )
    return msgspec.structs.replace(whole, **fields)


def record(**fields: Any) -> Episode:
    """An episode of which only the required fields are set."""
    bare = Episode(
        suite="made-up",
        task_id="t",
        lane="lane",
        round=0,
        sample=0,
        experience=0,
        place=0,
        status="ok",
        task=TaskInfo(domain="d", split="train"),
        model=ModelIdentity("scripted", "s"),
        config_digest="c",
        started_at="now",
        seconds=1.0,
    )
    return msgspec.structs.replace(bare, **fields)


def episode(task_id: str, **fields: Any) -> Episode:
    """An accepted episode of the training split."""
    done = {"verdicts": (Verdict(1.0, True),), "trajectory": trajectory(conversation(f"Do {task_id}"))}
    return record(task_id=task_id, **(done | fields))


def rollout(
    sample: int,
    reward: float | None,
    *branches: TokenBranch,
    steps: int = 1,
    messages: tuple[Message, ...] = (),
    **fields: Any,
) -> Episode:
    """A sample of a task, with the tokens of its replies."""
    step = Step(1, "stop", Usage())
    usual = {
        "suite": "s",
        "lane": "main",
        "model": ModelIdentity("vllm", "m", adapter="a", adapter_digest="digest"),
        "score": reward,
        "reward": None if reward is None else Reward(reward, {"score": reward}),
        "trajectory": Trajectory(messages, (), "hermes", "answered", steps=(step,) * steps, branches=branches),
    }
    return record(sample=sample, **(usual | fields))


def scored_group(**fields: Any) -> ScoredGroup:
    """Two rollouts of a task, one of them rewarded."""
    rewards = (1.0, 0.0)
    (usual,) = build_groups([rollout(n, reward, BRANCH) for n, reward in enumerate(rewards)])
    return msgspec.structs.replace(usual, **({"stop_reasons": ()} | fields))


def with_review(task_id: str) -> Episode:
    """An episode whose conversation continues in a review."""
    done = conversation(f"Do {task_id}")
    review = (
        *done,
        Message(role="user", content="Review"),
        Message(role="assistant", content="Nothing to save."),
    )
    return episode(task_id, review=Review(trajectory(review, since=len(done))))


def write_run(run: Path, *episodes: Episode) -> Path:
    """Writes episodes to a run's log."""

    async def append() -> None:
        log = EpisodeLog(run)
        # Side by side, to share their fsyncs.
        async with anyio.create_task_group() as group:
            for one in episodes:
                group.start_soon(log.append, one)
        log.close()

    anyio.run(append)
    return run


def write_manifest(run: Path, **fields: Any) -> None:
    """Writes a run's `run.json`."""
    usual = {"config": {}, "config_digest": "", "tasks_digest": "", "created_at": "", "versions": {}}
    write_json(run / "run.json", RunManifest(**(usual | fields)))
