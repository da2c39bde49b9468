"""The shipped test double: a Python policy in place of the model, with everything else real."""

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import anyio.lowlevel

from hermes_lab.config.schema import ModelConfig
from hermes_lab.errors import ConfigError, HermesLabError, ModelError
from hermes_lab.models.hermes_format import render_calls
from hermes_lab.plugins import explain_missing, import_own, is_missing
from hermes_lab.raised import message_of, told
from hermes_lab.returned import place_of, shown
from hermes_lab.text.suggest import did_you_mean
from hermes_lab.types import Generation, Message, ModelIdentity, Task
from hermes_lab.types.trajectory import ToolFormat

_DEFAULT = ModelConfig.model_fields["name"].default
Policy = Callable[[Sequence[Message]], Message]
"""Maps a conversation to the next assistant turn. It is stateless: many rollouts share it."""


@dataclass(frozen=True)
class TaskAwarePolicy:
    """A policy that needs the task, such as a demonstrator. The prompt alone is not enough: two worlds may share
    one."""

    for_task: Callable[[Task], Policy]
    """The policy for rollouts of a task."""


class ScriptedModel:
    """A `ModelClient` whose replies come from a policy. Its usage is zero, as it counts no tokens."""

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
        """The model for one rollout of that task; called at the start of every rollout (`hermes_lab/rollout.py`)."""
        if not isinstance(self._policy, TaskAwarePolicy):
            return self
        policy: Any = self._policy.for_task(task)
        if not callable(policy):
            raise ModelError(
                f"{self.identity.name}: for_task returned {shown(policy)}{place_of(self._policy.for_task)}; return a "
                "function that maps the conversation to the next Message"
            )
        return ScriptedModel(policy, name=self.identity.name, tool_format=self._tool_format)

    async def generate(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> Generation:
        """The policy's next turn; exceptions of the policy pass. Raises `ModelError` if it needs a task and there is
        none, as in a chat, and if it returns anything but a `Message`."""
        del tools
        await anyio.lowlevel.checkpoint()
        if isinstance(self._policy, TaskAwarePolicy):
            raise ModelError(
                f"{self.identity.name} works only on tasks of a suite (`hermes-lab run`, `hermes-lab experiment`)"
            )
        reply: Any = self._policy(messages)
        if inspect.iscoroutine(reply):
            reply.close()
        if not isinstance(reply, Message):
            raise ModelError(
                f"{self.identity.name}: the policy returned {shown(reply)}{place_of(self._policy)}; return "
                "Message(role='assistant', content=...)"
            )
        if self._tool_format == "hermes" and reply.tool_calls:
            reply = Message(role="assistant", content=render_calls(reply.content, reply.tool_calls))
        return Generation(reply, finish_reason="tool_calls" if reply.tool_calls else "stop")

    async def aclose(self) -> None:
        """Does nothing."""


def load_policy(name: str, options: Mapping[str, Any]) -> Policy | TaskAwarePolicy:
    """Builds the policy with the factory `module:attribute` and `options`. For modules of this package, `hermes_lab.`
    may be omitted.

    Raises `ConfigError` if there is no such factory, if it does not take the options, and if a module outside this
    package has the same name as one of ours.
    """
    module, _, attribute = name.partition(":")
    if not all(part.isidentifier() for part in (*module.split("."), attribute)):  # an import would run `./setup.py`
        if name == _DEFAULT:
            raise ConfigError("model.name: set it to module:factory for provider `scripted`, such as mine.agent:agent")
        raise ConfigError(
            f"model.name: {name!r} is not a policy of the form `module:factory`, which provider `scripted` needs"
        )
    module = module.removeprefix("hermes_lab.")
    try:
        factory = _factory(module, attribute)
    except HermesLabError:
        raise
    except Exception as error:
        if is_missing(error, module):
            raise ConfigError(f"model.name: {name}: {explain_missing(module)}") from None
        raise ConfigError(f"model.name: {name} cannot be imported: {_failed_import(error, module)}") from None
    try:
        policy: Any = factory(**options)
    except HermesLabError:
        raise
    except Exception as error:
        if isinstance(error, TypeError) and error.__traceback__ and error.__traceback__.tb_next is None:
            raise ConfigError(f"model.options: not accepted by {name}: {error}") from None
        raise ConfigError(f"model.name: {name} failed: {told(error, module)}") from None
    if not callable(policy) and not isinstance(policy, TaskAwarePolicy):
        raise ConfigError(
            f"model.name: {name} returned {shown(policy)}{place_of(factory)}; return a function that maps the "
            "conversation to the next Message, or a TaskAwarePolicy"
        )
    made: Policy | TaskAwarePolicy = policy
    return made


def _failed_import(error: Exception, module: str) -> str:
    if isinstance(error, SyntaxError) and error.filename:
        return f"{type(error).__name__}: {message_of(error)} ({error.filename}:{error.lineno})"
    return told(error, module)


def _factory(module: str, attribute: str) -> Callable[..., Any]:
    """The attribute of `hermes_lab.MODULE`, or of MODULE."""
    ours, theirs = _file_of(f"hermes_lab.{module}"), _file_of(module)
    of_ours = getattr(importlib.import_module(f"hermes_lab.{module}"), attribute, None) if ours else None
    if of_ours is None:
        found = getattr(import_own(module if theirs or not ours else f"hermes_lab.{module}"), attribute, None)
        if not callable(found):
            what = "does not exist" if found is None else f"is {shown(found)}, which is no function,"
            near = did_you_mean(attribute, known := _policies_in(module))
            there = f"; it has: {', '.join(known)}" if known else ""
            raise ConfigError(f"model.name: {module}:{attribute}: {attribute} {what} in {module}{near or there}")
        return cast(Callable[..., Any], found)
    if theirs not in (None, ours):
        raise ConfigError(
            f"model.name: {module}:{attribute} is a policy of Hermes Lab, but {theirs} has the same module name; "
            "rename that file, or run elsewhere"
        )
    return cast(Callable[..., Any], of_ours)


def _policies_in(module: str) -> list[str]:
    """The factories of policies in a module that has been imported: the functions that are annotated as such; all that
    are defined there if none is."""
    found = sys.modules.get(f"hermes_lab.{module}") or sys.modules.get(module)
    functions = inspect.getmembers(found, inspect.isfunction) if found else []
    public = {name: each for name, each in functions if not name.startswith("_")}
    annotated = [
        name
        for name, each in public.items()
        if inspect.get_annotations(each).get("return") in (Policy, TaskAwarePolicy)
    ]
    return annotated or [name for name, each in public.items() if found and each.__module__ == found.__name__]


def _file_of(module: str) -> Path | None:
    """The real path of a module; None if there is none. Parent packages are not imported, as they may be anybody's."""
    top, *names = module.split(".")
    spec = importlib.util.find_spec(top) if top else None
    if spec is None or not names:
        return Path(spec.origin).resolve() if spec and spec.origin else None
    for folder in spec.submodule_search_locations or ():
        path = Path(folder, *names)
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            if file.is_file():
                return file.resolve()
    return None
