"""The tree of errors.

HermesLabError
├── ConfigError     a person's input is wrong: one line, exit code 2
├── InfraError      the world failed, not the agent: the episode is errored, never scored
│   ├── ModelError
│   ├── SandboxError
│   ├── VerifierError
│   ├── WorkerError
│   └── StoreError
├── ContextFull     the prompt no longer fits the model: an outcome of the agent, scored like any other
└── ToolError       goes back to the model as {"error": ...}
"""


class HermesLabError(Exception):
    """The root of every error that this package raises on purpose."""


class ConfigError(HermesLabError):
    """Wrong input from a person. The message is one line: what is wrong, where, and how to mend it."""


class InfraError(HermesLabError):
    """The infrastructure failed. `kind` is recorded with the errored episode."""

    kind = "internal"


class ModelError(InfraError):
    """The endpoint could not be reached, or answered with something that is no reply."""

    kind = "model"


class SandboxError(InfraError):
    """The sandbox could not be started, or died."""

    kind = "sandbox"


class VerifierError(InfraError):
    """The verifier itself failed; says nothing of the agent."""

    kind = "verifier"


class WorkerError(InfraError):
    """The process that ran the rollout is gone, or none could be started."""

    kind = "worker"


class StoreError(InfraError):
    """A database cannot be reached or written: locked, disk full, no permission."""

    kind = "store"


class ContextFull(HermesLabError):
    """The server refused the prompt because it is longer than the model's context."""


class ToolError(HermesLabError):
    """A tool call that failed; its message is written for the model."""
