"""The `send_message` tool: sends a message of its own to the chat, or to the home channel."""

from typing import Annotated, Any, Literal

from pydantic import Field

from hermes_lab.errors import ToolError
from hermes_lab.tools.registry import ToolContext, tool


@tool(toolset="messages", serves=lambda ctx, _offered: ctx.send is not None)
async def send_message(
    ctx: ToolContext, text: Annotated[str, Field(max_length=20_000)], to: Literal["chat", "home"] = "chat"
) -> dict[str, Any]:
    """Send a message now, before your answer: progress on long work, or news for your owner.

    Args:
        to: This chat, or your owner's home channel. You cannot write anywhere else.
    """
    if not text.strip():
        raise ToolError("text: must not be empty")
    if ctx.send is None:
        raise ToolError("there is no chat to send to; put it in your answer")
    await ctx.send(text, to)
    return {"sent": to}
