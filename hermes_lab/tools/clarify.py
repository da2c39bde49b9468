"""The `clarify` tool: asks the user a question."""

from typing import Annotated, Any

from pydantic import Field

from hermes_lab.errors import ToolError
from hermes_lab.tools.registry import ToolContext, tool


@tool(toolset="clarify", serves=lambda ctx, _offered: ctx.ask is not None)
async def clarify(
    ctx: ToolContext, question: str, choices: Annotated[list[str], Field(max_length=4)] | None = None
) -> dict[str, Any]:
    """Ask the user a question, if you cannot do the task without the answer.

    Args:
        choices: Up to 4 answers to choose from; the user may still give another.
    """
    if not question.strip():
        raise ToolError("question: must not be empty")
    if ctx.ask is None:
        raise ToolError("no user can be asked here; decide yourself, say what you assumed, and continue")
    return {"answer": await ctx.ask(question, tuple(choices or ()))}
