"""The exception hierarchy.

HermesLabError
├── ConfigError     invalid user input: one line, exit code 2
├── InfraError      infrastructure failure: the episode is errored, not scored
│   ├── ModelError
│   │   └── PromptTooLong
│   ├── SandboxError
│   ├── ProgramError
│   ├── VerifierError
│   ├── WorkerError
│   ├── StoreError
│   └── McpError
├── ContextFull     the prompt exceeds the model's context: an outcome of the agent, scored as usual
│   └── NoRoomForReply
└── ToolError       returned to the model as {"error": ...}
"""


class HermesLabError(Exception):
    """Base class of all errors that this package raises on purpose."""


def first_failure(error: BaseException) -> BaseException:
    """The first failure of a task group, which cancelled the other tasks; any other error itself."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


class ConfigError(HermesLabError):
    """Invalid user input. The text is one line: what is wrong, where, and how to fix it.

    `field` is the configuration field at fault, which then stands before `message`; "" if the message names it, or
    there is none.
    """

    def __init__(self, message: str = "", field: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.field = field

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


class InfraError(HermesLabError):
    """The infrastructure failed. `kind` is recorded with the errored episode."""

    kind = "internal"


class ModelError(InfraError):
    """The endpoint is unreachable or sent an invalid response."""

    kind = "model"


class PromptTooLong(ModelError):
    """Not even a submission's first prompt fits the model's context."""


class SandboxError(InfraError):
    """The sandbox could not be started, or died."""

    kind = "sandbox"


class ProgramError(InfraError):
    """A program that works instead of the lab's own loop did not start, or broke its protocol."""

    kind = "program"


class VerifierError(InfraError):
    """The verifier itself failed, which says nothing about the agent."""

    kind = "verifier"


class WorkerError(InfraError):
    """The process running the rollout died or could not be started."""

    kind = "worker"


class StoreError(InfraError):
    """A database cannot be reached or written: locked, disk full, no permission."""

    kind = "store"


class McpError(InfraError):
    """An MCP server does not start, has ended, or breaks the protocol."""

    kind = "mcp"


class ContextFull(HermesLabError):
    """The server refused the prompt because it is longer than the model's context."""


class NoRoomForReply(ContextFull):
    """The prompt may fit the context, but not together with a reply of the configured length."""


class ToolError(HermesLabError):
    """A failed tool call; the message is written for the model."""
