"""The `clarify` tool: asks the user a question."""

from typing import Annotated, Any

from pydantic import Field

from hermes_lab.errors import ToolError
from hermes_lab.tools.registry import ToolContext, tool


@tool(toolset="clarify", serves=lambda ctx, _offered: ctx.ask is not None)
async def clarify(
    ctx: ToolContext, question: str, choices: Annotated[list[str], Field(max_length=4)] | None = None
) -> dict[str, Any]:
    """Ask the user a question, when the task cannot be understood without the answer.

    Args:
        choices: Up to 4 answers to choose from; the user may still give another.
    """
    if not question.strip():
        raise ToolError("question: say what you want to know")
    if ctx.ask is None:
        raise ToolError("nobody can be asked here; decide alone, say what you assumed, and go on")
    return {"answer": await ctx.ask(question, tuple(choices or ()))}
