"""The interfaces between components."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from hermes_lab.types import Generation, Message, ModelIdentity, Task, Verdict


class ModelClient(Protocol):
    """Answers a conversation with one assistant message."""

    @property
    def identity(self) -> ModelIdentity:
        """The weights that answer; recorded in every episode."""
        ...

    async def generate(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> Generation:
        """Generates one reply. `tools` are OpenAI function schemas, empty if the text format puts them in the prompt.

        Raises `ModelError` if no reply was obtained, `ContextFull` if the prompt does not fit.
        """
        ...

    async def aclose(self) -> None:
        """Closes connections and processes."""
        ...


class Delta(NamedTuple):
    """The next piece of a streamed reply.

    `text` is part of the answer, `reasoning` of the reasoning. On `restart` (no text), discard what was received; the
    reply is sent again from the start.
    """

    kind: Literal["text", "reasoning", "restart"]
    text: str = ""


OnText = Callable[[Delta], None]
"""Called with each piece as it arrives, in the event loop. What it raises ends the request."""


@runtime_checkable
class StreamingModel(ModelClient, Protocol):
    """A model that can stream its replies."""

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], on_text: OnText
    ) -> Generation:
        """As `generate`, and calls `on_text` with what can be shown of the reply; tool calls are not.

        A non-streamed reply is sent as one piece. When it returns, the texts since the last restart are the answer,
        without whitespace at its ends. Calls written in the text are left out as far as their tags show them. If it
        raises, discard all pieces.
        """
        ...


@runtime_checkable
class TaskAwareModel(ModelClient, Protocol):
    """A model that provides a client per rollout: one that depends on the task, or is pinned to one server."""

    def for_task(self, task: Task) -> ModelClient:
        """The client for one rollout of that task."""
        ...


class ExecResult(NamedTuple):
    """The result of a sandboxed command. `timed_out`: it was killed together with its foreground children."""

    output: str
    exit_code: int
    timed_out: bool
    truncated: bool


class Process(Protocol):
    """A program running in a sandbox, with pipes."""

    async def send(self, data: bytes) -> None:
        """Writes to its stdin. Raises `SandboxError` if it has ended or closed it."""
        ...

    async def close_stdin(self) -> None:
        """Closes its stdin."""
        ...

    async def receive(self) -> bytes:
        """The next bytes of its stdout; empty once it has ended or closed it, and everything was received."""
        ...

    def errors(self) -> str:
        """The last kilobytes of its stderr so far, and the limits of the sandbox for which it may have been killed."""
        ...

    async def wait(self) -> int:
        """Waits until it has ended. Returns its exit status, 128 + n after signal n."""
        ...

    async def kill(self) -> None:
        """Kills it and its process group, and closes the pipes; if a command runs, once that has ended. No effect if it
        has ended."""
        ...


class Home(Protocol):
    """Access to a writable home from outside the sandbox. Symbolic links are never followed. Calls block."""

    def read(self, path: str, limit: int) -> bytes:
        """See `Workspace.read`."""
        ...

    def write(self, path: str, data: bytes) -> None:
        """See `Workspace.write`."""
        ...

    def files(self, below: str = "") -> list[str]:
        """The paths of the regular files below a folder, relative to it; empty if there is no such folder.

        Raises `ToolError` for too many files, or folders nested too deep.
        """
        ...


class Workspace(Protocol):
    """Access to a workspace from outside the sandbox, for verifiers. Symbolic links are never followed."""

    async def read(self, path: str, limit: int = 10_000_000) -> bytes:
        """The bytes of a regular file. Raises `ToolError` if it is missing, a link, not a regular file, or over `limit`
        bytes."""
        ...

    async def write(self, path: str, data: bytes) -> None:
        """Writes a file and creates its folders; a link in the path is an error.

        A new file is executable if it begins with `#!`.
        """
        ...

    async def exec(self, command: str, timeout: float = 180.0, workdir: str = "", fresh: bool = False) -> ExecResult:
        """Runs a bash command inside; `timeout` is in seconds. The working directory and exported variables persist.

        A `fresh` command is a verifier's: it starts in the workspace with the initial environment and leaves no state.
        All background processes are frozen meanwhile, so that none can read the command and fake its answer. It still
        sees the files as the agent left them.
        """
        ...


class Sandbox(Workspace, Protocol):
    """An isolated workspace for one episode; an async context manager."""

    async def __aenter__(self) -> Sandbox: ...

    async def __aexit__(self, *exc: object) -> None:
        """Kills every process inside and removes the workspace."""
        ...

    @property
    def workspace_path(self) -> str:
        """The workspace's path as seen by commands."""
        ...

    @property
    def skills_path(self) -> str:
        """The path of provided files as seen by commands: `/app/skills` if the sandbox isolates."""
        ...

    async def provide(self, path: str, data: bytes) -> None:
        """Writes a file below `skills_path`, as `write` does. Commands can read and run it, but not change it."""
        ...

    async def pack(self, limit: int) -> bytes:
        """The workspace as an archive. Raises as `hermes_lab.sandbox.archive.pack`."""
        ...

    async def unpack(self, data: bytes) -> None:
        """Fills an empty workspace from an archive of `pack`. No command may have run yet."""
        ...

    async def start(self, command: Sequence[str], environment: Mapping[str, str], workdir: str = "") -> Process:
        """Starts a program with pipes; it runs beside other ones and beside commands, and ends with the sandbox.

        `environment` is its whole environment; `workdir` is empty for the workspace. A start waits until a running
        command has ended. While a `fresh` command runs, the program is frozen. A command that does not exist is started
        too, and exits with 127. Raises `SandboxError` if it cannot be started.
        """
        ...

    async def listen(self, port: int) -> socket.socket:
        """A listening TCP socket for programs inside, who reach it at 127.0.0.1:`port`; it is served outside.

        Without a separate network, as with backend `local`, the sandbox picks a free port: see `getsockname`. Raises
        `SandboxError`.
        """
        ...

    @property
    def home(self) -> Home:
        """Access to the writable home from outside, if the sandbox has one (`hermes_lab.sandbox.extras`)."""
        ...

    @property
    def home_path(self) -> str:
        """The home's path as seen by programs."""
        ...

    def fork(self) -> Sandbox:
        """A second sandbox over the same workspace, with its own directory, variables and processes.

        It starts when entered. Leaving it keeps the workspace; leaving this sandbox ends it too.
        """
        ...


class Suite(Protocol):
    """A set of tasks and their verifier. Suites are self-tested: the oracle scores 1, a no-op scores 0."""

    @property
    def name(self) -> str: ...

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits accepted by `load`."""
        ...

    def load(self, *, split: str, count: int, seed: int, world: int) -> list[Task]:
        """Returns `count` tasks, deterministic in the arguments; 0 means all tasks of a finite suite.

        Raises `ConfigError` for an unknown split, or if there are fewer tasks.
        """
        ...

    async def verify(self, task: Task, workspace: Workspace, answer: str | None, attempt: int = 1) -> Verdict | None:
        """Judges the workspace and the final answer (None if there is none). Returns None if the task has no verifier.

        It does not change the workspace, and may be called again after more work. `attempt` counts the submissions from
        1: later feedback may reveal more.
        """
        ...
