"""Delegation: child agents, each with a conversation and a shell of its own, in the workspace of their parent."""

import difflib
import logging
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import anyio

from hermes_lab.agent.loop import Agent, result_messages, summariser_of
from hermes_lab.config.schema import RunConfig
from hermes_lab.errors import InfraError, ToolError
from hermes_lab.protocols import ModelClient, Sandbox
from hermes_lab.skills.session import SkillSession
from hermes_lab.tools.registry import Toolbox, ToolContext, known_tools, known_toolsets, unavailable_tools
from hermes_lab.types import Child, EpisodeError, Message, Page, ToolResult, Trajectory
from hermes_lab.types.trajectory import StopReason
from hermes_lab.web import WebProvider

WITHHELD = frozenset(
    {"clarify", "code_execution", "memory", "messages", "session_search", "skill_compile", "skill_manage"}
)
"""Toolsets and tools that no child has: what speaks to a person, what outlives the episode, and scripts."""

_DELEGATION = "delegation"
_STOPPED = '{"error": "stopped: the time is used up"}'
_log = logging.getLogger(__name__)


class Delegation:
    """The children of one agent, as its tools call them (`ToolContext.delegate`).

    A child has the model and the limits of its parent; a system prompt, which `system` makes for its tools; a sandbox
    beside that of its parent; and of its parent's tools those that are not `WITHHELD`. It may read skills, and delegate
    in turn while `depth`, 1 for a child of the episode's agent, is below the limit. What it spends, its parent spends,
    and the skills that it loads, its parent has loaded.
    """

    def __init__(
        self,
        model: ModelClient,
        config: RunConfig,
        sandbox: Sandbox,
        skills: SkillSession | None,
        system: Callable[[Toolbox], Message],
        *,
        depth: int = 1,
        auxiliary: ModelClient | None = None,
    ) -> None:
        limits = config.agent.delegation
        self._model = model
        self._config = config
        self._agent_config = config.agent.model_copy(update={"max_iterations": limits.max_iterations})
        self._sandbox = sandbox
        self._skills = skills
        self._system = system
        self._depth = depth
        self._auxiliary = auxiliary
        self._may_delegate = depth < limits.max_depth
        self._slots = anyio.Semaphore(limits.at_once)
        self._children: list[Child] = []
        self._parent: Agent | None = None
        self._tools: list[str] = []
        self._pages: tuple[Page, ...] = ()
        self._web: WebProvider | None = None

    def serve(self, parent: Agent, toolbox: Toolbox) -> None:
        """Says whose children they are from now on, and which tools it has: this is made before both."""
        self._parent = parent
        self._children = []
        self._pages, self._web = toolbox.context.pages, toolbox.context.web
        self._tools = [name for schema in toolbox.schemas if self._may_have(name := schema["function"]["name"])]

    @property
    def children(self) -> tuple[Child, ...]:
        """The records, in the order of the calls. One without a trajectory did not begin."""
        return tuple(self._children)

    async def __call__(self, goal: str, context: str, toolsets: tuple[str, ...]) -> dict[str, Any]:
        """The answer of the tool: the child's final answer, or why there is none.

        `toolsets`, where given, leave the child those tools alone. Raises `ToolError` for one of which it may have
        nothing, and `InfraError` where the child met one: then the episode is errored. Whatever else goes wrong is a
        failed call.
        """
        tools = _narrowed(self._tools, toolsets) if toolsets else self._tools
        place = len(self._children)  # taken before anything is waited for, so in the order of the calls
        self._children.append(Child(goal, self._depth))
        async with self._slots:
            started = time.monotonic()
            async with self._sandbox.beside() as sandbox:
                agent, below = self._begin(sandbox, tools)
                stop: StopReason = "max_seconds"  # of one that is cancelled: its parent's time is up
                error = None
                try:
                    stop = await agent.submit(f"{goal}\n\n# Context\n{context}" if context.strip() else goal)
                except InfraError:
                    raise
                except Exception as failure:
                    _log.warning("a child agent failed", exc_info=True)
                    error = _described(failure)
                finally:
                    trajectory = None if error else self._trajectory(agent, below._skills, stop)
                    seconds = time.monotonic() - started
                    self._children[place] = Child(goal, self._depth, trajectory, seconds, error, below.children)
                    if self._skills and below._skills:  # what helped the child helped the episode
                        self._skills.loaded += below._skills.loaded
        return _told(self._children[place])

    def _begin(self, sandbox: Sandbox, tools: Sequence[str]) -> tuple[Agent, "Delegation"]:
        """A child that has been told nothing yet, and its own children."""
        skills = self._skills.fork("foreground") if self._skills else None
        below = Delegation(
            self._model, self._config, sandbox, skills, self._system, depth=self._depth + 1, auxiliary=self._auxiliary
        )
        context = ToolContext(sandbox, skills, self._config.sandbox, delegate=below, pages=self._pages, web=self._web)
        toolbox = Toolbox(tools, context, profile=self._config.agent.prompt)
        system, price = self._system(toolbox), self._config.model.price
        summariser = summariser_of(self._config, self._auxiliary)
        agent = Agent(self._model, toolbox, self._agent_config, [system], price, self._parent, summariser)
        below.serve(agent, toolbox)
        return agent, below

    def _trajectory(self, agent: Agent, skills: SkillSession | None, stop: StopReason) -> Trajectory:
        if calls := agent.messages[-1].tool_calls:  # cancelled at work; a call is never parted from its answer
            results = [ToolResult(call.id, call.name, _STOPPED, ok=False) for call in calls]
            if skills:
                skills.confirm_loads(results)
            agent.messages += result_messages(results, self._agent_config.tool_format)
        return agent.trajectory(stop)

    def _may_have(self, name: str) -> bool:
        known = known_tools().get(name)
        if known is None or name in unavailable_tools():
            return False
        return WITHHELD.isdisjoint((name, known.toolset)) and (known.toolset != _DELEGATION or self._may_delegate)


def _described(failure: Exception) -> EpisodeError:
    return EpisodeError("internal", f"{type(failure).__name__}: {failure}", traceback.format_exc())


def _told(child: Child) -> dict[str, Any]:
    """What the parent sees of a child's work."""
    if child.error:
        return {"error": f"the child failed: {child.error.message}"}
    assert child.trajectory is not None
    answer, stop = child.trajectory.final_response, child.trajectory.stop_reason
    if not answer:
        return {"error": f"the child gave no answer: {stop}"}
    return {"answer": answer.strip()} | ({} if stop == "answered" else {"stopped": stop})


def _narrowed(tools: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """Those of `tools` that `wanted` names, by toolset or by themselves."""
    toolsets = known_toolsets()
    chosen: set[str] = set()
    for name in wanted:
        members = set(tools).intersection(toolsets.get(name, (name,)))
        if not members:
            names = [*tools, *(name for name, inside in toolsets.items() if not set(tools).isdisjoint(inside))]
            near = difflib.get_close_matches(name, names, n=1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            raise ToolError(f"toolsets: a child cannot have {name!r}{hint}; it may have: {', '.join(tools) or 'none'}")
        chosen |= members
    return [name for name in tools if name in chosen]
