"""The summaries that tools ask for in a chat."""

from collections.abc import Sequence

from hermes_lab.agent.loop import Agent
from hermes_lab.types import Message


class Summaries:
    """Writes summaries with the `auxiliary` model, or else the session's own (`ToolContext.summarise`).

    Their tokens count for the agent of the turn.
    """

    def __init__(self) -> None:
        self._agent: Agent | None = None

    def serve(self, agent: Agent) -> None:
        """Sets the agent of the turn."""
        self._agent = agent

    async def __call__(self, request: Sequence[Message]) -> str:
        """See `hermes_lab.sessions.summary.Summarise`."""
        assert self._agent is not None
        return await self._agent.summarise(request)
