"""Tools: declared with `@tool`, discovered in this package and by entry points, run through a `Toolbox`."""

import importlib
import json
import logging
import pkgutil
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

import hermes_lab.tools
from hermes_lab.config import SandboxConfig
from hermes_lab.errors import ConfigError, InfraError, ToolError
from hermes_lab.protocols import Sandbox
from hermes_lab.tools.schema import Arguments, arguments_model, description, function_schema
from hermes_lab.types import ToolCall, ToolResult

if TYPE_CHECKING:
    from hermes_lab.skills.session import SkillSession

Handler = Callable[..., Awaitable[dict[str, Any]]]
_ENTRY_POINTS = "hermes_lab.tools"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ToolContext:
    """What a tool may reach: the episode's sandbox, its view of the skill library (if any), the limits."""

    sandbox: Sandbox
    skills: "SkillSession | None"
    config: SandboxConfig


@dataclass(frozen=True)
class Tool:
    """One tool. `arguments` checks what a model passes before `handler` sees it."""

    name: str
    toolset: str
    handler: Handler
    arguments: type[Arguments]
    schema: dict[str, Any]


def tool(*, toolset: str) -> Callable[[Handler], Tool]:
    """Makes a tool of `async def name(ctx: ToolContext, ...) -> dict`.

    The schema comes from the signature; the first paragraph of the docstring describes the tool, its section
    `Args:` the arguments. The handler's answer goes to the model as JSON; one with an `error` is a failure.
    """

    def declare(handler: Handler) -> Tool:
        name = handler.__name__
        arguments = arguments_model(handler)
        schema = function_schema(name, description(handler), arguments)
        return Tool(name, toolset, handler, arguments, schema)

    return declare


@cache
def known_tools() -> dict[str, Tool]:
    """Every installed tool by name: those of this package, then those of the entry points `hermes_lab.tools`.

    Raises `ConfigError` where an entry point gives no tool, or one with a name that is taken.
    """
    found: dict[str, Tool] = {}
    for module in pkgutil.iter_modules(hermes_lab.tools.__path__, "hermes_lab.tools."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, Tool):
                found[value.name] = value
    for entry in entry_points(group=_ENTRY_POINTS):
        value = entry.load()
        if not isinstance(value, Tool):
            raise ConfigError(f"entry point {entry.value}: no tool; name a function made with @tool")
        if value.name in found:
            raise ConfigError(f"entry point {entry.value}: a tool {value.name!r} is there already; rename it")
        found[value.name] = value
    return found


class _RefusedCall(ToolError):
    """A call that was never executed."""


class Toolbox:
    """The tools of one episode, in a fixed order: by toolset as given, then by name."""

    def __init__(self, toolsets: Sequence[str], context: ToolContext) -> None:
        self._context = context
        self._tools = {tool.name: tool for name in toolsets for tool in _toolset(name)}
        self._allowed = frozenset(self._tools)

    @property
    def schemas(self) -> tuple[dict[str, Any], ...]:
        """The OpenAI function schemas."""
        return tuple(tool.schema for tool in self._tools.values())

    def allow(self, names: Collection[str]) -> "Toolbox":
        """The same schemas, but every tool that is not in `names` answers with an error."""
        limited = Toolbox((), self._context)
        limited._tools = self._tools
        limited._allowed = self._allowed.intersection(names)
        return limited

    async def run(self, call: ToolCall) -> ToolResult:
        """Answers one call; whatever the model got wrong is an answer too.

        Raises `InfraError` where the sandbox failed, and never anything else.
        """
        started = time.perf_counter()
        executed = True
        try:
            answer = await self._answer(call)
        except _RefusedCall as error:
            answer, executed = {"error": str(error)}, False
        except ToolError as error:
            answer = {"error": str(error)}
        except InfraError:
            raise
        except Exception as error:
            _log.warning("tool %s failed", call.name, exc_info=True)
            answer = {"error": f"{call.name} failed: {type(error).__name__}: {error}"}
        seconds = time.perf_counter() - started
        ok = "error" not in answer
        return ToolResult(call.id, call.name, _to_json(answer), ok=ok, executed=executed, seconds=seconds)

    async def _answer(self, call: ToolCall) -> dict[str, Any]:
        if call.error:
            raise _RefusedCall(call.error)
        if call.name not in self._tools:
            raise _RefusedCall(f"unknown tool {call.name!r}; the tools are: {', '.join(self._tools)}")
        if call.name not in self._allowed:
            raise _RefusedCall(f"{call.name} may not be used now; use: {', '.join(sorted(self._allowed))}")
        tool = self._tools[call.name]
        try:
            arguments = tool.arguments.model_validate(call.arguments)
        except ValidationError as error:
            raise _RefusedCall(f"bad arguments for {tool.name}: {_explain(error)}") from None
        return await tool.handler(
            self._context, **{name: getattr(arguments, name) for name in tool.arguments.model_fields}
        )


def check_toolsets(names: Sequence[str]) -> None:
    """Raises `ConfigError` naming a toolset that is not there."""
    for name in names:
        _toolset(name)


def _toolset(name: str) -> list[Tool]:
    tools = sorted((tool for tool in known_tools().values() if tool.toolset == name), key=lambda tool: tool.name)
    if not tools:
        known = ", ".join(sorted({tool.toolset for tool in known_tools().values()}))
        raise ConfigError(f"agent.toolsets: no toolset {name!r}; there are: {known}")
    return tools


def _explain(error: ValidationError) -> str:
    parts = []
    for item in error.errors(include_url=False):
        where = ".".join(str(part) for part in item["loc"])
        what = "no such argument" if item["type"] == "extra_forbidden" else item["msg"]
        parts.append(f"{where}: {what}")
    return "; ".join(parts)


def _to_json(answer: dict[str, Any]) -> str:
    """JSON that can be encoded: a lone surrogate, which a model can write as an escape, becomes `?`."""
    return json.dumps(answer, ensure_ascii=False).encode(errors="replace").decode()
