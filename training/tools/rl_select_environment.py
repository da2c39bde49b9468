"""Starts a proposal."""

from typing import Any

from hermes_lab.models.cards import Method
from hermes_lab.tools.registry import ToolContext, tool


@tool(toolset="rl")
def rl_select_environment(ctx: ToolContext, environment: str, method: Method = "grpo") -> dict[str, Any]:
    """Choose the environment to propose a training for; this starts a new proposal.
    {rl_edit_config: Edit it with rl_edit_config.} {rl_start_training: Propose it with rl_start_training.}

    Args:
        environment: Name of a suite.
        method: How to train.
    """
    from hermes_lab.training.choices import Choice
    from hermes_lab.training.tools.answers import shown, told

    with told():
        ctx.state(Choice).select(environment, method)
        return shown(ctx)
