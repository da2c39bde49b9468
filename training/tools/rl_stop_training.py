"""Withdraws a proposal; does not stop a training."""

from typing import Any

from hermes_lab.errors import ToolError
from hermes_lab.tools.registry import ToolContext, tool


@tool(toolset="rl")
def rl_stop_training(ctx: ToolContext, proposal: str) -> dict[str, Any]:
    """Withdraw a proposal that was not started. Only a person can stop a running training.

    Args:
        proposal: Its name.
    """
    from hermes_lab.training.choices import RUNS
    from hermes_lab.training.proposals import find_proposal, list_proposals, withdraw
    from hermes_lab.training.status import list_trainings
    from hermes_lab.training.tools.answers import told

    del ctx
    with told():
        started = {one.name for one in list_proposals() if one.started} | {path.name for path in list_trainings(RUNS)}
        if proposal in started:
            raise ToolError(f"{proposal}: was started, and only a person can stop a training (Ctrl-C where it runs)")
        withdraw(find_proposal(proposal))
        return {"status": "withdrawn", "proposal": proposal}
