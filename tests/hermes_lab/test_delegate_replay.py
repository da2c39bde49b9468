"""An episode with child agents comes out the same from its record, byte for byte."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from fakes.episodes import record

from hermes_lab.agent.delegate import Delegation
from hermes_lab.agent.loop import Agent
from hermes_lab.config.schema import RunConfig
from hermes_lab.errors import ModelError
from hermes_lab.models.replay import ReplayModel
from hermes_lab.models.scripted import ScriptedModel
from hermes_lab.protocols import ModelClient
from hermes_lab.sandbox import open_sandbox
from hermes_lab.tools.registry import ToolContext
from hermes_lab.tools.toolbox import Toolbox
from hermes_lab.types import Child, Episode, Message, ToolCall, Trajectory

pytestmark = pytest.mark.anyio

_FIRST_WAITS = "until [ -e b ]; do sleep 0.01; done; cat b"
SCRIPT: dict[str, list[tuple[str, list[tuple[str, Any]]]]] = {
    "Go.": [
        ("", [("delegate_task", "One."), ("delegate_task", "Two.")]),
        ("", [("terminal", "cat b c")]),
        ("Done.", []),
    ],
    "One.": [("", [("terminal", _FIRST_WAITS)]), ("One saw two.", [])],
    "Two.": [("", [("delegate_task", "Three.")]), ("", [("terminal", "echo two >b")]), ("Two.", [])],
    "Three.": [("", [("terminal", "echo three >c; pwd")]), ("<think>so</think>Three.", [])],
}


def policy(messages: Sequence[Message]) -> Message:
    text, wanted = SCRIPT[messages[1].content][sum(m.role == "assistant" for m in messages)]
    fields = {"terminal": "command", "delegate_task": "goal"}
    calls = tuple(ToolCall(f"call_{n}", name, {fields[name]: value}) for n, (name, value) in enumerate(wanted))
    return Message("assistant", text, calls)


async def episode(model: ModelClient, tool_format: str) -> Episode:
    agent_config = {"toolsets": ["terminal", "delegation"], "tool_format": tool_format, "max_seconds": 30}
    config = RunConfig.model_validate({"agent": agent_config})
    async with open_sandbox(config.sandbox) as sandbox:
        system: Callable[[Toolbox], Message] = lambda toolbox: Message("system", str(len(toolbox.schemas)))  # noqa: E731
        delegation = Delegation(model, config, sandbox, None, system)
        toolbox = Toolbox(config.agent.toolsets, ToolContext(sandbox, None, config.sandbox, delegate=delegation))
        agent = Agent(model, toolbox, config.agent, [system(toolbox)])
        delegation.serve(agent, toolbox)
        trajectory = agent.trajectory(await agent.submit("Go."))
    return record(trajectory=trajectory, children=delegation.children)


def said(trajectory: Trajectory | None, children: Sequence[Child]) -> list[bytes]:
    """Every message of an episode and of its children, as it was sent or sampled."""
    assert trajectory
    own = [msgspec.json.encode((m.role, m.content, m.tool_calls, m.reasoning)) for m in trajectory.messages]
    return own + [line for child in children for line in (child.goal.encode(), *said(child.trajectory, child.children))]


@pytest.mark.parametrize("tool_format", ["native", "hermes"])
async def test_parallel_and_nested_children_replay_byte_for_byte(tool_format: str) -> None:
    then = await episode(ScriptedModel(policy, tool_format=tool_format), tool_format)
    read = msgspec.json.decode(msgspec.json.encode(then), type=Episode)
    assert read == then
    now = await episode(ReplayModel([read]), tool_format)
    assert said(now.trajectory, now.children) == said(then.trajectory, then.children)
    assert [child.goal for child in now.children] == ["One.", "Two."]
    assert [child.goal for child in now.children[1].children] == ["Three."]
    assert any(b"two\\\\nthree" in line for line in said(now.trajectory, ()))


async def test_a_record_without_its_children_cannot_be_replayed() -> None:
    then = await episode(ScriptedModel(policy), "native")
    with pytest.raises(ModelError, match="no reply to this prompt"):
        await episode(ReplayModel([msgspec.structs.replace(then, children=())]), "native")
