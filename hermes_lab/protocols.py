"""The seams: each has two real implementations, or one and a shipped test double."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from hermes_lab.types import Generation, Message, ModelIdentity, Task, Verdict


class ModelClient(Protocol):
    """Anything that answers a conversation with one assistant message."""

    @property
    def identity(self) -> ModelIdentity:
        """Which weights answer; recorded in every episode."""
        ...

    async def generate(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> Generation:
        """One reply. `tools` are OpenAI function schemas, empty where the text format carries them in the prompt.

        Raises `ModelError` where no reply could be had, `ContextFull` where the prompt does not fit.
        """
        ...

    async def aclose(self) -> None:
        """Gives back connections and processes."""
        ...


@runtime_checkable
class TaskAwareModel(ModelClient, Protocol):
    """A model that answers each rollout in its own way: from what the task is, or always from the same server."""

    def for_task(self, task: Task) -> ModelClient:
        """The model for one rollout of that task."""
        ...


class ExecResult(NamedTuple):
    """What a command in a sandbox did. `timed_out`: it was killed, with everything it started in the foreground."""

    output: str
    exit_code: int
    timed_out: bool
    truncated: bool


class Workspace(Protocol):
    """A verifier's hands: they reach into the workspace from outside and follow no link."""

    async def read(self, path: str, limit: int = 10_000_000) -> bytes:
        """The bytes of a regular file. `ToolError` where it is missing, a link, too large, or no regular file."""
        ...

    async def write(self, path: str, data: bytes) -> None:
        """Writes a file, making its folders; a link on the way is an error, never followed.

        A new file may be executed if it begins with `#!`.
        """
        ...

    async def exec(self, command: str, timeout: float = 180.0, workdir: str = "", fresh: bool = False) -> ExecResult:
        """Runs a bash command inside. The working directory and exported variables of earlier commands persist.

        A `fresh` command is a verifier's: it starts in the workspace with the first environment, whatever the agent's
        commands exported, leaves no state, and all background processes stand still meanwhile: none can read the
        command and answer it. Files, though, are what the agent made of them.
        """
        ...


class Sandbox(Workspace, Protocol):
    """One isolated workspace that lives for one episode; an async context manager."""

    async def __aenter__(self) -> "Sandbox": ...

    async def __aexit__(self, *exc: object) -> None:
        """Ends every process inside and removes the workspace."""
        ...

    @property
    def seen_workspace(self) -> str:
        """The workspace's path as commands see it."""
        ...

    @property
    def seen_skills(self) -> str:
        """The path at which commands see what is provided: `/app/skills`, where the sandbox isolates."""
        ...

    async def provide(self, path: str, data: bytes) -> None:
        """Lays a file below `seen_skills`, as `write` does: commands can read and run it, but not change it."""
        ...

    def beside(self) -> "Sandbox":
        """Another sandbox over the same workspace, with a directory, variables and processes of its own; it starts when
        it is entered. Its end leaves the workspace; the end of this one is its end too."""
        ...


class Suite(Protocol):
    """A set of tasks with a way to judge them. A suite proves itself: the oracle scores 1, a no-op 0."""

    @property
    def name(self) -> str: ...

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that `load` knows."""
        ...

    def load(self, *, split: str, count: int, seed: int, world: int) -> list[Task]:
        """`count` tasks, the same for the same arguments. `count` 0 means all, where the suite is finite.

        Raises `ConfigError` for a split it does not have, or more tasks than there are.
        """
        ...

    async def verify(self, task: Task, workspace: Workspace, answer: str | None, attempt: int = 1) -> Verdict | None:
        """Judges the workspace, and the final answer (None where the agent gave none); None where the task has
        nothing to judge by. May be called again on the same workspace after more work, and does not change it.
        `attempt` counts the submissions, from 1: later feedback may tell more."""
        ...
