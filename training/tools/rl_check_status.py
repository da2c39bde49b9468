"""Shows the status of a training, at most every thirty minutes."""

import math
import time
from collections.abc import Callable
from typing import Any

from hermes_lab.errors import ToolError
from hermes_lab.tools.registry import ToolContext, tool

MINUTES = 30
"""Minutes between two checks of a training, which takes hours; every check uses context."""


class Looks:
    """When each training was last checked in this episode; `clock` is in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._last: dict[str, float] = {}

    def look(self, training: str) -> None:
        """Records a check. Raises `ToolError` if the last one was too recent."""
        now = self.clock()
        wait = MINUTES * 60 - (now - self._last[training]) if training in self._last else 0
        if wait > 0:
            raise ToolError(
                f"{training}: can be checked once in {MINUTES} minutes; try again in {math.ceil(wait / 60)} minutes, "
                "and do something else until then"
            )
        self._last[training] = now


@tool(toolset="rl")
def rl_check_status(ctx: ToolContext, training: str) -> dict[str, Any]:
    """Check the status of a training or a proposal: its last step and metrics. At most once in 30 minutes for each.

    Args:
        training: Name of a training or a proposal.
    """
    from hermes_lab.training.choices import RUNS
    from hermes_lab.training.proposals import list_proposals
    from hermes_lab.training.status import find_training, status
    from hermes_lab.training.tools.answers import told

    with told():
        waiting = {one.name: one for one in list_proposals() if not one.started}
        if training in waiting:
            ctx.state(Looks).look(training)
            return {"training": training, "status": "proposed, not started", "command": waiting[training].command}
        folder = find_training(training, RUNS)
        ctx.state(Looks).look(str(folder))
        return status(folder)
