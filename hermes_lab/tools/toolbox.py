"""The tools of an episode: toolsets, and the `Toolbox` that answers calls."""

import difflib
import inspect
import json
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial, reduce
from itertools import groupby
from typing import Any, NamedTuple, cast

import anyio
import anyio.to_thread
from pydantic import ValidationError

from hermes_lab.errors import ConfigError, InfraError, ToolError
from hermes_lab.sandbox.extras import NOTHING_MORE, Extras
from hermes_lab.text.suggest import did_you_mean
from hermes_lab.tools.compiled import compiled_tools
from hermes_lab.tools.registry import GivenTool, Tool, ToolContext, installed_tools, known_tools, unavailable_tools
from hermes_lab.tools.schema import Declaration, Profile, explain
from hermes_lab.tools.toolsets import COMPOSITES, SERVER, of_server
from hermes_lab.types import ToolCall, ToolResult

_WITH_COMPILED = frozenset({"skill_view", "skill_compile"})  # with one of these, compiled skills become tools
_MAX_PARALLEL = 8
_MAX_THREADS = 64
_encode = json.JSONEncoder(ensure_ascii=False).encode
_log = logging.getLogger(__name__)


def known_toolsets() -> dict[str, tuple[str, ...]]:
    """Returns all toolsets, with the names of their tools in the order in which a model sees them."""
    names = {known.toolset for known in known_tools().values()} | set(COMPOSITES)
    return {name: tuple(dict.fromkeys(_members(name))) for name in sorted(names)}


def check_toolsets(names: Sequence[str], disabled: Sequence[str] = ()) -> frozenset[str]:
    """Returns the tools of these toolsets. Raises `ConfigError` for an unknown or unavailable toolset."""
    return _kit(own(names), own(disabled)).names


def own(names: Sequence[str]) -> tuple[str, ...]:
    """The names without those of MCP servers."""
    return tuple(name for name in names if not of_server(name) or name in known_tools())


def selected(given: Sequence[Tool], toolsets: Sequence[str], disabled: Sequence[str]) -> list[Tool]:
    """The given tools without those of MCP servers that are disabled, or that `toolsets` does not name although it
    names others."""
    wanted = [name for name in toolsets if of_server(name)]

    def is_in(tool: Tool) -> bool:
        names = (tool.name, tool.toolset)
        if not tool.toolset.startswith(SERVER):
            return True
        return not any(name in disabled for name in names) and (not wanted or any(name in wanted for name in names))

    return [tool for tool in given if is_in(tool)]


def tool_extras(names: Sequence[str], disabled: Sequence[str] = ()) -> Extras:
    """Returns what the tools of these toolsets need of a sandbox. Raises `ConfigError` as `check_toolsets` does."""
    tools = [tool for tool, _ in _kit(own(names), own(disabled)).tools.values()]
    return reduce(Extras.joined, (tool.extras() for tool in tools if tool.extras), NOTHING_MORE)


def reload_tools() -> None:
    """Clears the caches, for a process that has installed packages or set environment variables since."""
    for found in (installed_tools, unavailable_tools, _kit):
        found.cache_clear()


class _RefusedCall(ToolError):
    """A tool call that was rejected before it was executed."""


class _Kit(NamedTuple):
    """A resolved selection of tools, shared by all episodes with the same selection."""

    tools: dict[str, tuple[Tool, Declaration]]
    schemas: tuple[dict[str, Any], ...]
    names: frozenset[str]


class Toolbox:
    """The tools of one episode, in a fixed order: by toolset as given, then by name.

    `toolsets` may also name single tools; `disabled` ones are left out. They are followed by the tools `given`, by the
    task or by MCP servers (all of them, unless `toolsets` names some), and, if skill tools are enabled, by the compiled
    skills of the library (`tools/compiled.py`). A skill compiled during the session has no schema, but can be called.
    With the profile `full`, a tool that could only return an error in this episode has no schema either, and returns
    that error if it is called anyway.

    Raises `ConfigError` as `check_toolsets` does, and if a tool given by the task has the name of another one.
    """

    def __init__(
        self,
        toolsets: Sequence[str],
        context: ToolContext,
        disabled: Sequence[str] = (),
        given: Sequence[Tool] = (),
        *,
        profile: Profile = "full",
    ) -> None:
        self._context = context
        self._profile = profile
        given = selected(given, toolsets, disabled)
        toolsets, disabled = own(toolsets), own(disabled)
        configured = _kit(toolsets, disabled, profile)
        self._refusing = _refusing(configured, context) if profile == "full" else {}
        self._kit = _kit(toolsets, disabled, profile, frozenset(self._refusing))
        self._compiles = not configured.names.isdisjoint(_WITH_COMPILED)
        self._added: dict[str, Tool] = {}
        if given:
            self._check_names_are_free(given)
            before = {name: tool for name, (tool, _) in self._kit.tools.items()}
            self._kit = _resolved(before | _by_name(given), profile)
        if compiled := self._compiled():
            before = {name: tool for name, (tool, _) in self._kit.tools.items()}
            added = {name: tool for name, tool in compiled.items() if name not in before}
            self._kit = _resolved(before | added, profile)
        self._allowed = self._kit.names

    @property
    def schemas(self) -> tuple[dict[str, Any], ...]:
        """The OpenAI function schemas of the tools."""
        return self._kit.schemas

    @property
    def served(self) -> dict[str, Tool]:
        """The tools of MCP servers that have a schema, by name."""
        tools = {name: tool for name, (tool, _) in self._kit.tools.items()}
        return {name: tool for name, tool in tools.items() if _is_served(tool)}

    def is_served(self, name: str) -> bool:
        """Whether a tool is one of an MCP server, or may have been one that a server gained later."""
        return name in self.served or (bool(self.served) and of_server(name) and self._find(name) is None)

    @property
    def context(self) -> ToolContext:
        """The context passed to the tools."""
        return self._context

    def allow(self, names: Collection[str], context: ToolContext | None = None) -> "Toolbox":
        """Returns a toolbox with the same schemas in which tools not in `names` return an error. The other tools get
        `context` if it is given."""
        limited = Toolbox((), context or self._context, profile=self._profile)
        limited._kit = self._kit
        limited._refusing = {name: tool for name, tool in self._refusing.items() if name in names}
        limited._allowed = self._allowed.intersection(names)
        return limited

    def serve(self, tools: Sequence[Tool]) -> None:
        """Replaces the tools of MCP servers. A tool that has a schema keeps it, and returns an error if its server no
        longer offers it; new tools can be called."""
        given = _by_name(tools)
        kit = dict(self._kit.tools)
        for name, gone in self.served.items():
            tool = given.get(name) or _gone(gone)
            kit[name] = (tool, Declaration(kit[name][1].schema, tool.beside(()).arguments))
        self._kit = self._kit._replace(tools=kit)
        self._added = {name: tool for name, tool in self._added.items() if not _is_served(tool)}
        self._added |= {name: tool for name, tool in given.items() if name not in kit}

    def add_tools(self, tools: Sequence[Tool]) -> None:
        """Adds tools that can be called from now on. The schemas do not change; the caller must describe the tools."""
        self._check_names_are_free(tools)
        self._added |= _by_name(tools)

    def _check_names_are_free(self, tools: Sequence[Tool]) -> None:
        if taken := [tool.name for tool in tools if tool.name in self._kit.names]:
            raise ConfigError(
                f"agent.toolsets: the task has its own tools named {', '.join(taken)}; disable the configured ones "
                "(agent.disabled_tools)"
            )

    def _compiled(self) -> Mapping[str, Tool]:
        if not self._compiles or self._context.skills is None:
            return {}
        return compiled_tools(self._context.skills.library)

    def _find(self, name: str) -> tuple[Tool, Declaration] | None:
        """Finds a tool: one of the initial ones, or one added or compiled since, or one that only returns an error."""
        if found := self._kit.tools.get(name):
            return found
        added = self._added.get(name) or self._compiled().get(name) or self._refusing.get(name)
        return (added, added.beside((), self._profile)) if added else None

    async def run_all(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        """Runs the calls of a turn and returns the results in order. Consecutive calls of `parallel` tools run
        concurrently.

        Raises `InfraError` as `run` does; concurrent calls are cancelled, and later ones are not started.
        """
        results: list[ToolResult] = []
        for parallel, group in groupby(calls, self._is_parallel):
            together = list(group)
            if parallel and len(together) > 1:
                results += await self._run_together(together)
            else:
                results += [await self.run(call) for call in together]
        return results

    async def run(self, call: ToolCall) -> ToolResult:
        """Runs one call. Mistakes of the model and failures of the tool are returned as error results.

        Raises only `InfraError`, if the sandbox or other infrastructure failed.
        """
        started = time.perf_counter()
        executed = ok = True
        try:
            answer = await self._answer(call)
            ok = "error" not in answer
            content = _to_json(answer)
        except _RefusedCall as error:
            ok = executed = False
            content = _to_json({"error": str(error)})
        except ToolError as error:
            ok = False
            content = _to_json({"error": str(error)})
        except InfraError:
            raise
        except Exception as error:
            if (infra := _infra_error(error)) is not None:  # raised inside a task group of the handler
                raise infra from error
            _log.warning("tool %s failed", call.name, exc_info=True)
            ok = False
            content = _to_json({"error": f"{call.name} failed: {type(error).__name__}: {error}"})
        seconds = time.perf_counter() - started
        return ToolResult(call.id, call.name, content, ok=ok, executed=executed, seconds=seconds)

    async def _answer(self, call: ToolCall) -> dict[str, Any]:
        if call.error:
            raise _RefusedCall(call.error)
        if (found := self._find(call.name)) is None:
            listing = f"available: {', '.join(self._kit.tools)}"
            raise _RefusedCall(f"unknown tool {call.name!r}{_hint(call.name, self._kit.tools)}; {listing}")
        if call.name in self._kit.names and call.name not in self._allowed:
            raise _RefusedCall(f"{call.name} is not allowed now; use: {', '.join(sorted(self._allowed))}")
        known, declaration = found
        try:
            arguments = declaration.arguments.model_validate(call.arguments)
        except ValidationError as error:
            raise _RefusedCall(f"invalid arguments for {known.name}: {explain(error)}") from None
        if inspect.iscoroutinefunction(known.handler):
            answer: dict[str, Any] = await known.handler(self._context, **arguments.passed())
            return answer
        blocking = cast(Callable[[], dict[str, Any]], partial(known.handler, self._context, **arguments.passed()))
        return await anyio.to_thread.run_sync(blocking, abandon_on_cancel=True, limiter=_threads())

    def _is_parallel(self, call: ToolCall) -> bool:
        found = self._kit.tools.get(call.name)
        return found is not None and found[0].parallel

    async def _run_together(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        results: dict[int, ToolResult] = {}
        failures: list[InfraError] = []
        slots = anyio.Semaphore(_MAX_PARALLEL)

        async def run(index: int, call: ToolCall) -> None:
            async with slots:
                try:
                    results[index] = await self.run(call)
                except InfraError as error:
                    failures.append(error)
                    group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            for index, call in enumerate(calls):
                group.start_soon(run, index, call)
        if failures:
            raise failures[0]
        return [results[index] for index in range(len(calls))]


@cache
def _threads() -> anyio.CapacityLimiter:
    """Limits the threads of blocking tools, separately from the threads used by the log and the sandboxes."""
    return anyio.CapacityLimiter(_MAX_THREADS)


@cache
def _kit(
    toolsets: tuple[str, ...],
    disabled: tuple[str, ...],
    profile: Profile = "full",
    refusing: frozenset[str] = frozenset(),
) -> _Kit:
    """Resolves the selected tools that work on this machine, without those in `refusing`."""
    installed, missing = installed_tools(), unavailable_tools()
    known = installed.tools
    for name in disabled:
        if name not in known and name not in installed.broken:
            raise ConfigError(
                f"no tool {name!r}{did_you_mean(name, known)}; there are: {', '.join(known)}", "agent.disabled_tools"
            )
    chosen: dict[str, Tool] = {}
    for toolset in toolsets:
        installed.check([toolset], disabled)
        members = _members(toolset)
        installed.check([name for name in members if name not in disabled], disabled)
        if all(name in missing for name in members):
            reasons = "; ".join(f"{name}: {missing[name]}" for name in members)
            raise ConfigError(f"{toolset} cannot work here: {reasons}", "agent.toolsets")
        chosen |= {name: known[name] for name in members if name not in missing and name not in disabled}
    return _resolved({name: tool for name, tool in chosen.items() if name not in refusing}, profile)


def _refusing(kit: _Kit, context: ToolContext) -> dict[str, Tool]:
    """Returns the tools that could only return an error in this episode.

    A tool may be useful only together with another one, so this repeats until no more tools are left out.
    """
    offered = {name: tool for name, (tool, _) in kit.tools.items()}
    while refusing := [name for name, tool in offered.items() if tool.serves and not tool.serves(context, offered)]:
        offered = {name: tool for name, tool in offered.items() if name not in refusing}
    return {name: tool for name, (tool, _) in kit.tools.items() if name not in offered}


def _resolved(chosen: Mapping[str, Tool], profile: Profile) -> _Kit:
    tools = {name: (tool, tool.beside(chosen, profile)) for name, tool in chosen.items()}
    return _Kit(tools, tuple(declaration.schema for _, declaration in tools.values()), frozenset(tools))


def _is_served(tool: Tool) -> bool:
    return isinstance(tool, GivenTool) and tool.served


def _gone(tool: Tool) -> Tool:
    """What answers for the tool of a server that does not offer it any more."""

    async def handler(ctx: ToolContext, /, **arguments: Any) -> dict[str, Any]:
        del ctx, arguments
        raise ToolError(f"{tool.name} is no longer available: its server has stopped offering it")

    return replace(tool, handler=handler)


def _by_name(tools: Sequence[Tool]) -> dict[str, Tool]:
    return {tool.name: tool for tool in tools}


def _members(name: str) -> list[str]:
    """Returns the names of the tools of a toolset, or a single tool's own name."""
    if name in COMPOSITES:
        return [member for part in COMPOSITES[name] for member in _members(part)]
    known = known_tools()
    if members := sorted(tool.name for tool in known.values() if tool.toolset == name):
        return members
    if name in known:
        return [name]
    toolsets = sorted({tool.toolset for tool in known.values()} | set(COMPOSITES))
    hint = did_you_mean(name, (*toolsets, *known))
    broken = ", ".join(installed_tools().broken)
    also = f"; these plugins cannot be loaded, see the warning: {broken}" if broken else ""
    raise ConfigError(f"no toolset {name!r}{hint}; there are: {', '.join(toolsets)}{also}", "agent.toolsets")


def _hint(name: str, known: Collection[str]) -> str:
    """A suggestion for the model, which reads it in this form."""
    near = difflib.get_close_matches(name, known, n=1)
    return f" (did you mean {near[0]}?)" if near else ""


def _infra_error(error: BaseException) -> InfraError | None:
    """Returns `error` if it is an `InfraError`, or the first one in an exception group."""
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(_infra_error, error.exceptions)), None)
    return error if isinstance(error, InfraError) else None


def _to_json(answer: dict[str, Any]) -> str:
    """Returns JSON that can be encoded as UTF-8: lone surrogates, which a model can write as escapes, become `?`."""
    text = _encode(answer)
    return text if text.isascii() else text.encode(errors="replace").decode()
