"""Messages in the chat-completions shape, with what the wire leaves out."""

from typing import Any

from hermes_lab.models.reasoning import separate_reasoning
from hermes_lab.models.wires.chat import wire
from hermes_lab.types import Trajectory


def chat(trajectory: Trajectory) -> list[dict[str, Any]]:
    """The messages as they were sent and sampled. Reasoning that the server gave apart from the text stands in
    `reasoning_content`, where chat templates look for it."""
    sent = wire(trajectory.messages, trajectory.tool_format)
    for row, message in zip(sent, trajectory.messages, strict=True):
        if reasoning := separate_reasoning(message.content, message.reasoning):
            row["reasoning_content"] = reasoning
    return sent


def sent_tools(trajectory: Trajectory) -> list[dict[str, Any]]:
    """The `tools` of the requests; in the text format there were none, they stand in the system prompt."""
    return list(trajectory.tools) if trajectory.tool_format == "native" else []
