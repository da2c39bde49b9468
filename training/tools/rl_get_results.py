"""Shows the results of a training."""

from typing import Any

from hermes_lab.tools.registry import ToolContext, tool


@tool(toolset="rl", parallel=True)
def rl_get_results(ctx: ToolContext, training: str) -> dict[str, Any]:
    """Read the results of a training: its card, if it is finished, and its last metrics.

    Args:
        training: Name of a training.
    """
    from hermes_lab.training.choices import RUNS
    from hermes_lab.training.status import find_training, results
    from hermes_lab.training.tools.answers import told

    del ctx
    with told():
        return results(find_training(training, RUNS))
