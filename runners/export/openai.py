"""`openai`: one row per episode, `{"messages", "tools", "metadata"}`."""

from collections.abc import Iterator
from typing import Any

from hermes_lab.runners.export.chat import chat, sent_tools
from hermes_lab.runners.export.metadata import metadata
from hermes_lab.runners.export.source import Source
from hermes_lab.types import Trajectory


def rows(source: Source) -> Iterator[dict[str, Any]]:
    """Every finished episode, without the review after it."""
    for episode, trajectory in source.finished():
        yield {
            "messages": chat(trajectory),
            "tools": sent_tools(trajectory),
            "metadata": metadata(episode, trajectory) | {"malformed_calls": _malformed(trajectory)},
        }


def _malformed(trajectory: Trajectory) -> list[dict[str, Any]]:
    """Native calls whose arguments are not valid JSON. The messages have them without arguments, as the model saw them
    in later prompts; `raw` is what it wrote."""
    if trajectory.tool_format == "hermes":
        return []
    return [
        {"message": index, "id": call.id, "raw": call.raw, "error": call.error}
        for index, message in enumerate(trajectory.messages)
        for call in message.tool_calls
        if call.error
    ]
