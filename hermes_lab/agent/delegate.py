"""Delegation: child agents with their own conversation and shell, in their parent's workspace."""

import difflib
import logging
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import anyio

from hermes_lab.agent.loop import Agent, result_messages, summariser_of
from hermes_lab.config.schema import RunConfig
from hermes_lab.errors import InfraError, ToolError
from hermes_lab.protocols import ModelClient, Sandbox
from hermes_lab.skills.session import SkillSession
from hermes_lab.tools.registry import Tool, ToolContext, known_tools, unavailable_tools
from hermes_lab.tools.toolbox import Toolbox, known_toolsets
from hermes_lab.types import Child, EpisodeError, Message, Page, ToolResult, Trajectory
from hermes_lab.types.trajectory import StopReason
from hermes_lab.web import WebProvider

WITHHELD = frozenset(
    {"clarify", "code_execution", "memory", "messages", "session_search", "skill_compile", "skill_manage"}
)
"""Toolsets and tools that no child gets: those that reach a person or outlive the episode, and scripts."""

_DELEGATION = "delegation"
_STOPPED = '{"error": "stopped: the time limit was reached"}'
_log = logging.getLogger(__name__)


class Delegation:
    """Runs the child agents of one agent (`ToolContext.delegate`).

    A child has its parent's model and limits, a system prompt that `system` renders for its tools, a second sandbox
    over the same workspace, and its parent's tools except `WITHHELD` ones. It can read skills, and can delegate while
    `depth` (1 for children of the episode's agent) is below the limit. Its spending counts towards its parent's budget,
    and skills it loads count as loaded by the parent.
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
        self._served: dict[str, Tool] = {}
        self._pages: tuple[Page, ...] = ()
        self._web: WebProvider | None = None

    def serve(self, parent: Agent, toolbox: Toolbox) -> None:
        """Sets the parent agent and its tools. A separate step, since the agent's toolbox needs this object first."""
        self._parent = parent
        self._children = []
        self._pages, self._web = toolbox.context.pages, toolbox.context.web
        self._served = toolbox.served
        self._tools = [name for schema in toolbox.schemas if self._may_have(name := schema["function"]["name"])]

    @property
    def children(self) -> tuple[Child, ...]:
        """The records of the children in call order. A record without a trajectory never started."""
        return tuple(self._children)

    async def __call__(self, goal: str, context: str, toolsets: tuple[str, ...]) -> dict[str, Any]:
        """Runs a child and returns the tool's answer: its final answer, or why there is none.

        `toolsets` limits the child's tools. Raises `ToolError` if it names one the child cannot have, and `InfraError`
        if the child met one, which makes the episode errored. Any other failure is a failed call.
        """
        tools = _select_tools(self._tools, toolsets, self._served) if toolsets else self._tools
        place = len(self._children)  # taken before the first await, so that children are in call order
        self._children.append(Child(goal, self._depth))
        async with self._slots:
            started = time.monotonic()
            async with self._sandbox.fork() as sandbox:
                agent, nested = self._begin(sandbox, tools)
                stop: StopReason = "max_seconds"  # if cancelled: the parent's time is up
                error = None
                try:
                    stop = await agent.submit(f"{goal}\n\n# Context\n{context}" if context.strip() else goal)
                except InfraError:
                    raise
                except Exception as failure:
                    _log.warning("a child agent failed", exc_info=True)
                    error = _episode_error(failure)
                finally:
                    trajectory = None if error else self._trajectory(agent, nested._skills, stop)
                    seconds = time.monotonic() - started
                    self._children[place] = Child(goal, self._depth, trajectory, seconds, error, nested.children)
                    if self._skills and nested._skills:  # loads by the child count for the episode
                        self._skills.loaded += nested._skills.loaded
        return _tool_answer(self._children[place])

    def _begin(self, sandbox: Sandbox, tools: Sequence[str]) -> tuple[Agent, "Delegation"]:
        """Makes a child that has no messages yet, and the delegation for its own children."""
        skills = self._skills.fork("foreground") if self._skills else None
        nested = Delegation(
            self._model, self._config, sandbox, skills, self._system, depth=self._depth + 1, auxiliary=self._auxiliary
        )
        context = ToolContext(sandbox, skills, self._config.sandbox, delegate=nested, pages=self._pages, web=self._web)
        given = [self._served[name] for name in tools if name in self._served]
        own = [name for name in tools if name not in self._served]
        toolbox = Toolbox(own, context, given=given, profile=self._config.agent.prompt)
        system, price = self._system(toolbox), self._config.model.price
        summariser = summariser_of(self._config, self._auxiliary)
        agent = Agent(self._model, toolbox, self._agent_config, [system], price, self._parent, summariser)
        nested.serve(agent, toolbox)
        return agent, nested

    def _trajectory(self, agent: Agent, skills: SkillSession | None, stop: StopReason) -> Trajectory:
        if calls := agent.messages[-1].tool_calls:  # cancelled during a call; every call needs a result
            results = [ToolResult(call.id, call.name, _STOPPED, ok=False) for call in calls]
            if skills:
                skills.confirm_loads(results)
            agent.messages += result_messages(results, self._agent_config.tool_format)
        return agent.trajectory(stop)

    def _may_have(self, name: str) -> bool:
        if name in self._served:
            return True
        known = known_tools().get(name)
        if known is None or name in unavailable_tools():
            return False
        return WITHHELD.isdisjoint((name, known.toolset)) and (known.toolset != _DELEGATION or self._may_delegate)


def _episode_error(failure: Exception) -> EpisodeError:
    return EpisodeError("internal", f"{type(failure).__name__}: {failure}", traceback.format_exc())


def _tool_answer(child: Child) -> dict[str, Any]:
    """The child's result as the parent sees it."""
    if child.error:
        return {"error": f"the child agent failed: {child.error.message}"}
    assert child.trajectory is not None
    answer, stop = child.trajectory.final_response, child.trajectory.stop_reason
    if not answer:
        return {"error": f"the child agent gave no answer: {stop}"}
    return {"answer": answer.strip()} | ({} if stop == "answered" else {"stopped": stop})


def _select_tools(tools: Sequence[str], wanted: Sequence[str], served: Mapping[str, Tool]) -> list[str]:
    """The tools that `wanted` selects, by toolset or by name. `served` are those of MCP servers."""
    toolsets: dict[str, tuple[str, ...]] = dict(known_toolsets())
    for name, tool in served.items():
        toolsets[tool.toolset] = (*toolsets.get(tool.toolset, ()), name)
    chosen: set[str] = set()
    for name in wanted:
        members = set(tools).intersection(toolsets.get(name, (name,)))
        if not members:
            names = [*tools, *(name for name, inside in toolsets.items() if not set(tools).isdisjoint(inside))]
            near = difflib.get_close_matches(name, names, n=1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            raise ToolError(
                f"toolsets: a child agent cannot use {name!r}{hint}; available: {', '.join(tools) or 'none'}"
            )
        chosen |= members
    return [name for name in tools if name in chosen]
