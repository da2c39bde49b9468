"""Messages in the chat-completions format, plus the reasoning, which requests leave out."""

from typing import Any

from hermes_lab.models.reasoning import separate_reasoning
from hermes_lab.models.wires.chat import wire
from hermes_lab.types import Trajectory


def chat(trajectory: Trajectory) -> list[dict[str, Any]]:
    """The messages as sent and sampled. Reasoning that the server returned separately from the text is in
    `reasoning_content`, where chat templates expect it."""
    sent = wire(trajectory.messages, trajectory.tool_format)
    for row, message in zip(sent, trajectory.messages, strict=True):
        if reasoning := separate_reasoning(message.content, message.reasoning):
            row["reasoning_content"] = reasoning
    return sent


def sent_tools(trajectory: Trajectory) -> list[dict[str, Any]]:
    """The `tools` of the requests; empty in the text format, where the system prompt lists them."""
    return list(trajectory.tools) if trajectory.tool_format == "native" else []
