"""The interface between a rollout and the agent it runs."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Literal, Protocol

from hermes_lab.activity import Activity
from hermes_lab.config.schema import AgentConfig
from hermes_lab.knowledge import Knowledge
from hermes_lab.protocols import ModelClient, Sandbox
from hermes_lab.sandbox.extras import Extras
from hermes_lab.suites import TaskSession
from hermes_lab.tools.registry import Tool
from hermes_lab.types import Child, MemoryUse, ProgramUse, Review, SkillUse, Task, Trajectory, Verdict
from hermes_lab.types.trajectory import StopReason

ReviewWhen = Literal["never", "due", "always"]


@dataclass(frozen=True)
class Assignment:
    """One episode, as its worker gets it: the task's files are already in the sandbox.

    `key` is the episode's key, and `sample` the number of the rollout among those of the task.
    """

    task: Task
    key: str
    sample: int
    knowledge: Knowledge
    review: ReviewWhen
    model: ModelClient
    sandbox: Sandbox
    session: TaskSession | None
    activity: Activity


@dataclass(frozen=True)
class Work:
    """What a worker did besides its trajectory and its review."""

    skills: SkillUse
    memory: MemoryUse
    children: tuple[Child, ...] = ()
    program: ProgramUse | None = None


class Worker(Protocol):
    """An agent at work on one task. Repeated calls of `submit` continue its conversation under the same budget."""

    reviews_itself: bool
    """Whether the agent decides itself when to review its work; `review` then only waits for it."""

    async def submit(self, prompt: str) -> StopReason:
        """Works on `prompt` until the agent answers or a budget ends. Raises `InfraError` for any other failure."""
        ...

    def trajectory(self, stop: StopReason) -> Trajectory:
        """The conversation so far, without reviews."""
        ...

    def add_tools(self, tools: Sequence[Tool]) -> None:
        """Makes tools of the suite's session callable from now on."""
        ...

    async def review(self, verdicts: Sequence[Verdict]) -> Review | None:
        """The review of the work; None if there was none. Only cancellation propagates."""
        ...

    async def work(self, trajectory: Trajectory) -> Work:
        """What else it did. Called once, at the end."""
        ...


def limited(agent: AgentConfig, task: Task) -> AgentConfig:
    """The agent's limits, with the task's own time where that is shorter."""
    if task.root is None or not 0 < task.root.seconds < agent.max_seconds:
        return agent
    return agent.model_copy(update={"max_seconds": task.root.seconds})


class Harness(Protocol):
    """Starts workers. It is shared by all rollouts of a run."""

    @property
    def extras(self) -> Extras:
        """What its sandboxes need besides a workspace."""
        ...

    def open(self, assignment: Assignment) -> AbstractAsyncContextManager[Worker]:
        """A worker for one episode."""
        ...
