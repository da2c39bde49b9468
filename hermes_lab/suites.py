"""What a suite may offer beyond `hermes_lab.protocols.Suite`, such as its hidden rules, or tools for its tasks."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from hermes_lab.config.mcp import McpConfig, McpServerConfig
from hermes_lab.errors import ConfigError
from hermes_lab.protocols import Sandbox, Suite, Workspace
from hermes_lab.skills.library import Library
from hermes_lab.tools.registry import Tool
from hermes_lab.types import Skill, Task, Verdict


@runtime_checkable
class OracleSuite(Suite, Protocol):
    """A suite that can state its hidden rules: the `oracle` arm of an experiment starts with them."""

    def known_skills(self, *, split: str, world: int) -> Library:
        """Skills that state every hidden rule of a world, and nothing else."""
        ...


@runtime_checkable
class RuleAwareSuite(Suite, Protocol):
    """A suite that knows its hidden rules and detects which of them a skill states."""

    def rules(self, *, split: str, world: int, number: int = 0) -> frozenset[str]:
        """The ids of the rules in force at task `number` of the world, as in `Task.triggers`."""
        ...

    def stated_rules(self, skill: Skill, *, split: str, world: int, number: int = 0) -> tuple[str, ...]:
        """The ids of the rules in force that the skill's text states, and "" for each stated rule not in force."""
        ...


@runtime_checkable
class JudgedSuite(Suite, Protocol):
    """A suite with tasks whose answer a model grades, after `verify`."""

    def judge_rubric(self, task: Task) -> str:
        """What the judge goes by; "" for a task without a judge."""
        ...


class Turn(NamedTuple):
    """What the user says after an answer.

    `tools` can be called from then on. The schemas of an episode never change, so the message must describe them.
    """

    message: str
    tools: tuple[Tool, ...] = ()


class TaskSession(Protocol):
    """The state of one episode besides its workspace: stateful tools, and a user who may reply to answers."""

    @property
    def tools(self) -> Sequence[Tool]:
        """Tools of the task, listed after those of the configured toolsets. Child agents do not get them."""
        ...

    async def next_user_turn(self, answer: str | None) -> Turn | None:
        """The user's reply to an answer (None if empty) before the work is submitted; None if there is none."""
        ...

    async def verify(self, workspace: Workspace, answer: str | None, attempt: int = 1) -> Verdict | None:
        """As `Suite.verify`, judging the state of this session."""
        ...

    async def aclose(self) -> None:
        """Releases its resources. A tool call that timed out may still be running."""
        ...


@runtime_checkable
class SandboxSession(TaskSession, Protocol):
    """A session that works in the episode's sandbox itself."""

    async def begin(self, sandbox: Sandbox) -> None:
        """Called once the workspace is set up, before the first prompt. Raises `SandboxError`."""
        ...


@runtime_checkable
class SuiteWithWarnings(Suite, Protocol):
    """A suite that reports skipped tasks and warnings before a run."""

    @property
    def left_out(self) -> Mapping[str, str]:
        """The tasks that it leaves out, with the reason."""
        ...

    def remarks(self) -> Sequence[str]:
        """Warnings about what this suite does not guarantee, one per line."""
        ...


@runtime_checkable
class McpSuite(Suite, Protocol):
    """A suite whose tasks are done with the tools of MCP servers that it brings."""

    @property
    def servers(self) -> Mapping[str, McpServerConfig]:
        """The servers by name, as in `mcp.servers`. They are part of the tasks, so the configuration's digest leaves
        them out; the digests of their tools are recorded as those of all servers."""
        ...


def servers_of(config: McpConfig, suite: Suite) -> McpConfig:
    """The configured servers, and those of the suite. Raises `ConfigError` if two have the same name."""
    if not isinstance(suite, McpSuite):
        return config
    if taken := sorted(set(config.servers) & set(suite.servers)):
        raise ConfigError(f"mcp.servers.{taken[0]}: the suite {suite.name} has a server of that name; choose another")
    return McpConfig(servers={**suite.servers, **config.servers})


@runtime_checkable
class SessionSuite(Suite, Protocol):
    """A suite whose tasks need a session: more than a workspace and one prompt."""

    async def open_session(self, task: Task) -> TaskSession:
        """A new session for one episode of that task."""
        ...
