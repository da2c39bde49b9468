"""Shows the configuration of a proposal."""

from typing import Any

from hermes_lab.tools.registry import ToolContext, tool


@tool(toolset="rl", parallel=True)
def rl_get_current_config(ctx: ToolContext) -> dict[str, Any]:
    """Show the configuration of the proposal: what can be edited, what a person has set, and what is locked."""
    from hermes_lab.training.tools.answers import shown, told

    with told():
        return shown(ctx)
