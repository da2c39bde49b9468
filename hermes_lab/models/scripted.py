"""The shipped test double: a Python policy that answers as a model would, through the whole real agent."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import anyio.lowlevel

from hermes_lab.errors import ConfigError, ModelError
from hermes_lab.models.hermes_format import render_calls
from hermes_lab.types import Generation, Message, ModelIdentity, Task
from hermes_lab.types.trajectory import ToolFormat

Policy = Callable[[Sequence[Message]], Message]
"""Reads a conversation, gives the next assistant turn. It keeps no state: many rollouts share it."""


@dataclass(frozen=True)
class TaskAwarePolicy:
    """A policy that must know its task, as one that shows how the task is done. A prompt alone does not tell that: two
    worlds may have the same one."""

    for_task: Callable[[Task], Policy]
    """The policy for the rollouts of a task."""


class ScriptedModel:
    """A `ModelClient` whose replies come from a policy. It counts no tokens: its usage is zero."""

    def __init__(
        self,
        policy: Policy | TaskAwarePolicy,
        *,
        name: str = "scripted",
        tool_format: ToolFormat = "native",
    ) -> None:
        self._policy = policy
        self._tool_format = tool_format
        self.identity = ModelIdentity(provider="scripted", name=name)

    def for_task(self, task: Task) -> "ScriptedModel":
        """The model as it works on that task. Every rollout is begun so (`hermes_lab/rollout.py`)."""
        if not isinstance(self._policy, TaskAwarePolicy):
            return self
        return ScriptedModel(self._policy.for_task(task), name=self.identity.name, tool_format=self._tool_format)

    async def generate(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> Generation:
        """The policy's next turn. Raises `ModelError` where the policy needs a task and there is none, as in a chat."""
        del tools
        await anyio.lowlevel.checkpoint()
        if isinstance(self._policy, TaskAwarePolicy):
            raise ModelError(
                f"{self.identity.name} does tasks of a suite only (`hermes-lab run`, `hermes-lab experiment`)"
            )
        reply = self._policy(messages)
        if self._tool_format == "hermes" and reply.tool_calls:
            reply = Message(role="assistant", content=render_calls(reply.content, reply.tool_calls))
        return Generation(reply, finish_reason="tool_calls" if reply.tool_calls else "stop")

    async def aclose(self) -> None:
        """Nothing to give back."""


def load_policy(name: str, options: Mapping[str, Any]) -> Policy | TaskAwarePolicy:
    """The policy that the factory `module:attribute` makes of `options`. A module of the lab needs no `hermes_lab.`."""
    module, _, attribute = name.partition(":")
    try:
        factory = getattr(_import(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"model.name: {name!r} names no policy as `module:factory`: {error}") from None
    try:
        policy: Policy | TaskAwarePolicy = factory(**options)
    except TypeError as error:
        raise ConfigError(f"model.options: {name} does not take these: {error}") from None
    return policy


def _import(module: str) -> ModuleType:
    """`hermes_lab.MODULE` where there is one, or else MODULE."""
    ours = f"hermes_lab.{module}"
    try:
        return importlib.import_module(ours)
    except ModuleNotFoundError as error:
        # Not one of the lab's: neither it nor a package on the way to it exists. Any other missing module is a fault.
        if error.name is None or not f"{ours}.".startswith(f"{error.name}."):
            raise
    return importlib.import_module(module)
