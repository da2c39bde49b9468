"""How a training stands, once in thirty minutes."""

import math
import time
from collections.abc import Callable
from typing import Any

from hermes_lab.errors import ToolError
from hermes_lab.tools.registry import ToolContext, tool

MINUTES = 30
"""Between two looks at one training: it takes hours, and every look fills a context."""


class Looks:
    """When each training was last looked at in this episode, by a clock of seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._last: dict[str, float] = {}

    def look(self, training: str) -> None:
        """Takes note of a look. Raises `ToolError` where the last one was too short ago."""
        now = self.clock()
        wait = MINUTES * 60 - (now - self._last[training]) if training in self._last else 0
        if wait > 0:
            raise ToolError(
                f"{training}: one look in {MINUTES} minutes; look again in {math.ceil(wait / 60)} minutes, "
                "and do something else until then"
            )
        self._last[training] = now


@tool(toolset="rl")
def rl_check_status(ctx: ToolContext, training: str) -> dict[str, Any]:
    """Look how a training or a proposal stands: its last step and metrics. Once in 30 minutes for each.

    Args:
        training: A training or a proposal by name.
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
