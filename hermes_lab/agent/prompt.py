"""The system prompt: assembled once for an episode, what never varies first, the skills index last."""

from collections.abc import Mapping, Sequence
from typing import Any

from hermes_lab.models.hermes_format import render_tools
from hermes_lab.skills.library import Library
from hermes_lab.types.trajectory import ToolFormat

IDENTITY = """\
You are Hermes, an agent that does its work with tools. Your working folder is /app/data.
If a listed skill fits the task, load it with skill_view first and follow it. When the work is done, answer in one \
sentence: that submits it."""


def system_prompt(schemas: Sequence[Mapping[str, Any]], library: Library, tool_format: ToolFormat) -> str:
    """Identity and guidance, the tools (in the text format; a native endpoint adds them itself), the skills index."""
    parts = [IDENTITY]
    if tool_format == "hermes":
        parts.append(render_tools(schemas))
    if library.skills:
        parts.append(f"<skills>\n{library.index()}\n</skills>")
    return "\n\n".join(parts)
