"""The tools of a chat's session."""

from collections.abc import Callable, Sequence
from typing import Any

from hermes_lab.tools.registry import Tool, ToolContext, known_tools, unavailable_tools
from hermes_lab.tools.schema import Profile
from hermes_lab.tools.toolbox import Toolbox
from hermes_lab.types import ToolCall, ToolResult


class SessionToolbox(Toolbox):
    """A session's tools. `show` is called as each call starts, `shown` with each result.

    `frozen` are the tool schemas stored with the session. The model keeps seeing these exact bytes even if a tool has
    changed or is unavailable; calling such a tool gives an error. `given` are the tools of MCP servers.
    """

    def __init__(
        self,
        toolsets: Sequence[str],
        context: ToolContext,
        *,
        show: Callable[[ToolCall], None],
        shown: Callable[[ToolCall, ToolResult], None],
        disabled: Sequence[str] = (),
        given: Sequence[Tool] = (),
        frozen: tuple[dict[str, Any], ...] | None = None,
        profile: Profile = "full",
    ) -> None:
        if frozen is not None:
            names = [schema["function"]["name"] for schema in frozen]
            toolsets = [name for name in names if name in known_tools() and name not in unavailable_tools()]
            given, late = [t for t in given if t.name in names], [t for t in given if t.name not in names]
            disabled = ()
        super().__init__(toolsets, context, disabled, given, profile=profile)
        if frozen is not None:
            self.add_tools(late)
        self.done: dict[str, ToolResult] = {}
        self._show = show
        self._shown = shown
        self._frozen = frozen

    @property
    def schemas(self) -> tuple[dict[str, Any], ...]:
        """The schemas that the model sees."""
        return super().schemas if self._frozen is None else self._frozen

    async def run_all(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        """See `Toolbox.run_all`. `done` collects the results of this turn."""
        self.done = {}
        return await super().run_all(calls)

    async def run(self, call: ToolCall) -> ToolResult:
        """See `Toolbox.run`."""
        self._show(call)
        result = await super().run(call)
        self.done[call.id] = result
        self._shown(call, result)
        return result
