"""The lab's own agent loop as a worker."""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import cached_property, partial

import anyio.to_thread
import msgspec

from hermes_lab.agent.delegate import Delegation
from hermes_lab.agent.loop import Agent, summariser_of
from hermes_lab.agent.prompt import shows_skills, system_prompt
from hermes_lab.agent.review import review
from hermes_lab.config.schema import RunConfig
from hermes_lab.harness.worker import Assignment, Work, limited
from hermes_lab.mcp.recorded import RecordedServers
from hermes_lab.mcp.servers import EpisodeServers, Servers
from hermes_lab.memory import context_files
from hermes_lab.memory.notes import NotesSession
from hermes_lab.protocols import ModelClient
from hermes_lab.sandbox.extras import NOTHING_MORE, Extras
from hermes_lab.skills.learning.listing import choose
from hermes_lab.skills.learning.trace import traces
from hermes_lab.skills.session import SkillSession
from hermes_lab.skills.slash import expand
from hermes_lab.tools.distributions import draw_toolsets
from hermes_lab.tools.registry import Tool, ToolContext
from hermes_lab.tools.toolbox import Toolbox, tool_extras
from hermes_lab.types import MemoryUse, Message, Review, Skill, SkillUse, SkillWrite, Task, Trajectory, Verdict
from hermes_lab.types.trajectory import StopReason
from hermes_lab.web import WebProvider

_Opening = AbstractAsyncContextManager[EpisodeServers | RecordedServers]


@dataclass(frozen=True)
class OwnHarness:
    """Starts the lab's own loop. `web` is for tasks without pages of their own; `auxiliary` writes summaries; `servers`
    are the run's MCP servers; `reviewer` reviews instead of the model that worked."""

    config: RunConfig
    web: WebProvider | None = None
    auxiliary: ModelClient | None = None
    servers: Servers | RecordedServers | None = None
    reviewer: ModelClient | None = None

    @cached_property
    def extras(self) -> Extras:
        """See `Harness.extras`: what the servers need, and the tools, if they are not drawn anew for each task."""
        agent = self.config.agent
        of_servers = self.servers.extras if self.servers else NOTHING_MORE
        if agent.distribution:
            return of_servers
        return of_servers.joined(tool_extras(agent.toolsets, agent.disabled_tools))

    @asynccontextmanager
    async def open(self, assignment: Assignment) -> AsyncIterator["OwnWorker"]:
        """See `Harness.open`."""
        async with AsyncExitStack() as stack:
            served: EpisodeServers | RecordedServers | None = None
            if self.servers:
                opening: _Opening = self.servers.episode(assignment.sandbox)
                served = await stack.enter_async_context(opening)
            yield OwnWorker(self, assignment, await _context_files(assignment.task), served)


class OwnWorker:
    """See `Worker`."""

    reviews_itself = False

    def __init__(
        self,
        harness: OwnHarness,
        assignment: Assignment,
        context_files: str,
        served: EpisodeServers | RecordedServers | None = None,
    ) -> None:
        config, knowledge, model = harness.config, assignment.knowledge, assignment.model
        by = {"origin": "foreground", "episode": assignment.key, "model": model.identity.name}
        self._config = config
        self._reviewer = harness.reviewer
        self._assignment = assignment
        self._skills = SkillSession(knowledge.library, **by)  # type: ignore[arg-type]
        self._notes = NotesSession(knowledge.notes, config=config.memory, **by)  # type: ignore[arg-type]
        listed = choose(knowledge.library, assignment.task.prompt, config.skills.max_listed)
        system = partial(_system, config, assignment, listed, context_files)
        auxiliary = harness.auxiliary
        self._delegation = Delegation(model, config, assignment.sandbox, self._skills, system, auxiliary=auxiliary)
        context = ToolContext(
            sandbox=assignment.sandbox,
            skills=self._skills,
            notes=self._notes,
            config=config.sandbox,
            delegate=self._delegation,
            heal_attempts=config.skills.heal_attempts,
            pages=assignment.task.pages,
            web=harness.web,
        )
        self._toolbox = Toolbox(
            _toolsets(config, assignment),
            context,
            disabled=config.agent.disabled_tools,
            given=[*(served.tools if served else ()), *(assignment.session.tools if assignment.session else ())],
            profile=config.agent.prompt,
        )
        self._listed = listed if shows_skills(self._toolbox.schemas) else ()
        if served:
            served.add_tools = self._toolbox.add_tools
        self._agent = Agent(
            model,
            self._toolbox,
            limited(config.agent, assignment.task),
            [system(self._toolbox)],
            config.model.price,
            summariser=summariser_of(config, auxiliary),
            activity=assignment.activity,
        )
        self._delegation.serve(self._agent, self._toolbox)

    async def submit(self, prompt: str) -> StopReason:
        """See `Worker.submit`. The task's prompt may start with a skill's slash command."""
        first = len(self._agent.messages) == 1
        if first:
            prompt = await expand(prompt, self._skills, self._assignment.sandbox, self._config)
        return await self._agent.submit(prompt)

    def trajectory(self, stop: StopReason) -> Trajectory:
        """See `Worker.trajectory`."""
        return self._agent.trajectory(stop)

    def add_tools(self, tools: Sequence[Tool]) -> None:
        """See `Worker.add_tools`."""
        self._toolbox.add_tools(tools)

    async def review(self, verdicts: Sequence[Verdict]) -> Review:
        """See `Worker.review`."""
        done = await review(self._agent, self._toolbox, verdicts, self._config.skills, self._reviewer)
        return msgspec.structs.replace(done, writes=with_triggers(done.writes, self._assignment.task))

    async def work(self, trajectory: Trajectory) -> Work:
        """See `Worker.work`."""
        task, knowledge, children = self._assignment.task, self._assignment.knowledge, self._delegation.children
        names = tuple(skill.name for skill in self._listed)
        loaded = tuple(dict.fromkeys(self._skills.loaded))
        used = SkillUse(
            snapshot=knowledge.library.snapshot,
            listed=names,
            loaded=loaded,
            writes=with_triggers(self._skills.writes, task),
            traces=traces(knowledge.library, names, loaded, task, trajectory, knowledge.learnt_from, children),
        )
        return Work(used, MemoryUse(knowledge.notes_snapshot, tuple(self._notes.writes)), children)


def with_triggers(writes: Iterable[SkillWrite], task: Task) -> tuple[SkillWrite, ...]:
    """The writes, with the hidden rules of the task in which they were made."""
    return tuple(msgspec.structs.replace(write, triggers=task.triggers) for write in writes)


def _toolsets(config: RunConfig, assignment: Assignment) -> Sequence[str]:
    """The configured toolsets of this rollout, or a random draw from `agent.distribution`, the same in every arm."""
    if not config.agent.distribution:
        return config.agent.toolsets
    return draw_toolsets(config.agent.distribution, config.run.seed, assignment.task.id, assignment.sample)


async def _context_files(task: Task) -> str:
    """The rendered context files of the task, such as AGENTS.md."""
    if task.files.keys().isdisjoint(context_files.NAMES):
        return ""
    return await anyio.to_thread.run_sync(context_files.context_of, task.files)


def _system(
    config: RunConfig, assignment: Assignment, listed: Sequence[Skill], context_files: str, toolbox: Toolbox
) -> Message:
    knowledge = assignment.knowledge
    text = system_prompt(
        toolbox.schemas,
        config.agent.tool_format,
        skills=listed,
        more_skills=len(knowledge.library.listed) - len(listed),
        background=[context_files, knowledge.notes.render(config.memory)],
        profile=config.agent.prompt,
        isolated=config.sandbox.isolates,
        root=assignment.task.root,
    )
    return Message(role="system", content=text)
