"""A small agent episode with one tool, `add`, for any model."""

from collections.abc import Sequence

from hermes_lab.agent.loop import Agent
from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.config.schema import AgentConfig
from hermes_lab.protocols import ModelClient
from hermes_lab.tools.given import given_tool
from hermes_lab.tools.registry import ToolContext
from hermes_lab.tools.toolbox import Toolbox
from hermes_lab.types import Message, Trajectory

PROMPTS = ("Add 1 and 2.", "Add 4 more.")
SCHEMA = {"type": "object", "properties": {"by": {"type": "integer"}}, "required": ["by"]}


class Sum:
    """The state of `add`. Adding a negative number fails."""

    def __init__(self) -> None:
        self.total = 0

    def add(self, by: int) -> dict[str, object]:
        if by < 0:
            raise ValueError("only upwards")
        self.total += by
        return {"total": self.total}


async def play(model: ModelClient, *, tool_format: str = "native", prompts: Sequence[str] = PROMPTS) -> Trajectory:
    """Runs the episode with a submission for each of `prompts`."""
    config = AgentConfig.model_validate({"tool_format": tool_format, "max_seconds": 60})
    tools = (given_tool("add", "Adds to the sum.", SCHEMA, Sum().add),)
    toolbox = Toolbox((), ToolContext(None, None, SandboxConfig()), given=tools)
    agent = Agent(model, toolbox, config, [Message(role="system", content="You add.")])
    for prompt in prompts:
        stop = await agent.submit(prompt)
    return agent.trajectory(stop)
