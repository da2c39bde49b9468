"""Tools: declared with `@tool`, discovered in this package and by entry points, run through a `Toolbox`."""

import difflib
import importlib
import inspect
import json
import logging
import os
import pkgutil
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.metadata import entry_points
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import anyio
import anyio.to_thread
from pydantic import ValidationError

import hermes_lab.tools
from hermes_lab.config.schema import SandboxConfig
from hermes_lab.errors import ConfigError, InfraError, ToolError
from hermes_lab.protocols import Sandbox
from hermes_lab.tools.schema import Declaration, Profile, declare, explain, related
from hermes_lab.tools.toolsets import COMPOSITES
from hermes_lab.types import Page, ToolCall, ToolResult

if TYPE_CHECKING:
    from hermes_lab.memory.notes import NotesSession
    from hermes_lab.sessions import SessionStore
    from hermes_lab.skills.session import SkillSession
    from hermes_lab.web import WebProvider

Handler = Callable[..., Awaitable[dict[str, Any]]] | Callable[..., dict[str, Any]]
Ask = Callable[[str, tuple[str, ...]], Awaitable[str]]
"""Puts a question, with the answers to choose from (if any), to a person."""
Delegate = Callable[[str, str, tuple[str, ...]], Awaitable[dict[str, Any]]]
"""Has a child agent work on a goal, with some context, with these toolsets; gives the answer of the tool."""
Serves = Callable[["ToolContext", Collection[str]], bool]
"""Whether a tool can do anything in this episode, given its context and the names of the tools that are offered."""
T = TypeVar("T")
_ENTRY_POINTS = "hermes_lab.tools"
_WITH_COMPILED = frozenset({"skill_view", "skill_compile"})  # beside these, compiled skills are tools
_AT_ONCE = 8
_THREADS = 64
_encode = json.JSONEncoder(ensure_ascii=False).encode
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ToolContext:
    """What a tool may reach: the episode's sandbox and its limits; and, where there are such, its view of the skill
    library, the person who can be asked, its view of the notes, the stored sessions, and whoever runs child agents.
    `heal_attempts` are those of a compiled skill (`skills.heal_attempts`). `pages` are the web of a task that brings
    its own; `web` is what the other tasks can search."""

    sandbox: Sandbox
    skills: "SkillSession | None"
    config: SandboxConfig
    ask: Ask | None = None
    notes: "NotesSession | None" = None
    sessions: "SessionStore | None" = None
    delegate: Delegate | None = None
    heal_attempts: int = 3
    pages: tuple[Page, ...] = ()
    web: "WebProvider | None" = None
    _state: dict[type, Any] = field(default_factory=dict)

    def state(self, kind: type[T]) -> T:
        """What tools remember from call to call: the episode's one `kind`, made at first use."""
        if kind not in self._state:
            self._state[kind] = kind()
        kept: T = self._state[kind]
        return kept


@dataclass(frozen=True)
class Tool:
    """One tool, as `@tool` declared it."""

    name: str
    toolset: str
    handler: Handler
    parallel: bool = False
    requires_env: tuple[str, ...] = ()
    available: Callable[[], str] | None = None
    serves: Serves | None = None

    def beside(self, enabled: Collection[str], profile: Profile = "full") -> Declaration:
        """What a model is told of it where the tools `enabled` are there too."""
        return declare(self.handler, related(self.handler).intersection(enabled), profile)


@dataclass(frozen=True, kw_only=True)
class GivenTool(Tool):
    """A tool that comes with its declaration instead of a docstring (`tools/given.py`)."""

    declaration: Declaration

    def beside(self, enabled: Collection[str], profile: Profile = "full") -> Declaration:
        """Always the same: it knows of no other tool."""
        del enabled, profile
        return self.declaration


def tool(
    *,
    toolset: str,
    parallel: bool = False,
    requires_env: Sequence[str] = (),
    available: Callable[[], str] | None = None,
    serves: Serves | None = None,
) -> Callable[[Handler], Tool]:
    """Makes a tool of `async def name(ctx: ToolContext, ...) -> dict`; one that blocks is a plain `def`, and runs in a
    thread, so that it stops no other rollout.

    The schema comes from the signature; the first paragraph of the docstring describes the tool, its section
    `Args:` the arguments. Another tool is named only inside `{that_tool: ...}`, which is left out where it is not
    enabled; `schema.When` does the same for an argument. `{full: ...}` and `{compact: ...}` are text for one profile of
    the prompt; the text for `full` holds no value that a small model could copy as an argument. The handler's answer
    goes to the model as JSON; one with an `error` is a failure.

    `parallel` says that the tool changes nothing and may run beside others of the same turn. `requires_env` names
    environment variables without which it cannot work; `available` gives the reason why it cannot work here, or "".
    `serves` says whether it can do anything in an episode: where it can only refuse, a prompt of the profile `full`
    does not offer it.
    """

    def make(handler: Handler) -> Tool:
        declare(handler, frozenset())  # a mistake in the docstring shows at import
        return Tool(handler.__name__, toolset, handler, parallel, tuple(requires_env), available, serves)

    return make


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
        if value.toolset in COMPOSITES:
            raise ConfigError(f"entry point {entry.value}: toolset {value.toolset!r} is made of others; choose another")
        found[value.name] = value
    return found


@cache
def unavailable_tools() -> dict[str, str]:
    """The tools that cannot work on this machine, with the reason why, as found when first asked."""
    reasons = {known.name: _why_not(known) for known in known_tools().values()}
    return {name: reason for name, reason in reasons.items() if reason}


def known_toolsets() -> dict[str, tuple[str, ...]]:
    """Every toolset, with the names of its tools in the order in which a model sees them."""
    names = {known.toolset for known in known_tools().values()} | set(COMPOSITES)
    return {name: tuple(dict.fromkeys(_members(name))) for name in sorted(names)}


def check_toolsets(names: Sequence[str], disabled: Sequence[str] = ()) -> frozenset[str]:
    """The tools of these toolsets. Raises `ConfigError` naming one that is not there, or cannot work here."""
    return _kit(tuple(names), tuple(disabled)).names


def reload_tools() -> None:
    """Forgets what was found: for a process in which packages were installed or variables set since."""
    for found in (known_tools, unavailable_tools, _kit):
        found.cache_clear()


class _RefusedCall(ToolError):
    """A call that was never executed."""


class _Kit(NamedTuple):
    """A choice of tools, resolved: shared by all episodes that make the same one."""

    tools: dict[str, tuple[Tool, Declaration]]
    schemas: tuple[dict[str, Any], ...]
    names: frozenset[str]


class Toolbox:
    """The tools of one episode, in a fixed order: by toolset as given, then by name.

    `toolsets` may name single tools too; `disabled` ones are left out. After them come those that the task has `given`,
    and, beside tools for skills, the compiled skills of the library (`tools/compiled.py`); one that is compiled later
    has no schema in this session, but can be called. With the `profile` `full` a tool that can only refuse in this
    episode has no schema either, and refuses where it is called all the same. Raises `ConfigError` as `check_toolsets`
    does, and where the task gives a tool that is there already.
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
        configured = _kit(tuple(toolsets), tuple(disabled), profile)
        self._refusing = _refusing(configured, context) if profile == "full" else {}
        self._kit = _kit(tuple(toolsets), tuple(disabled), profile, frozenset(self._refusing))
        self._compiles = not configured.names.isdisjoint(_WITH_COMPILED)
        self._brought: dict[str, Tool] = {}
        if given:
            self._refuse_taken(given)
            before = {name: tool for name, (tool, _) in self._kit.tools.items()}
            self._kit = _resolved(before | _by_name(given), profile)
        if compiled := self._compiled():
            before = {name: tool for name, (tool, _) in self._kit.tools.items()}
            late = {name: tool for name, tool in compiled.items() if name not in before}
            self._kit = _resolved(before | late, profile)
        self._allowed = self._kit.names

    @property
    def schemas(self) -> tuple[dict[str, Any], ...]:
        """The OpenAI function schemas."""
        return self._kit.schemas

    @property
    def context(self) -> ToolContext:
        """What its tools may reach."""
        return self._context

    def allow(self, names: Collection[str], context: ToolContext | None = None) -> "Toolbox":
        """The same schemas, but every tool that is not in `names` answers with an error; `context` is what the others
        may reach from now on."""
        limited = Toolbox((), context or self._context, profile=self._profile)
        limited._kit = self._kit
        limited._refusing = {name: tool for name, tool in self._refusing.items() if name in names}
        limited._allowed = self._allowed.intersection(names)
        return limited

    def bring(self, tools: Sequence[Tool]) -> None:
        """Tools that can be called from now on. The schemas stay as they are: whoever brings tools describes them."""
        self._refuse_taken(tools)
        self._brought |= _by_name(tools)

    def _refuse_taken(self, tools: Sequence[Tool]) -> None:
        if taken := [tool.name for tool in tools if tool.name in self._kit.names]:
            raise ConfigError(
                f"agent.toolsets: the task brings tools of its own named {', '.join(taken)}; leave out those that are "
                "configured (agent.disabled_tools)"
            )

    def _compiled(self) -> Mapping[str, Tool]:
        if not self._compiles or self._context.skills is None:
            return {}
        from hermes_lab.tools.compiled import compiled_tools

        return compiled_tools(self._context.skills.library)

    def _find(self, name: str) -> tuple[Tool, Declaration] | None:
        """The tool of that name: of the session's beginning, or brought or compiled since, or one that refuses."""
        if found := self._kit.tools.get(name):
            return found
        late = self._brought.get(name) or self._compiled().get(name) or self._refusing.get(name)
        return (late, late.beside((), self._profile)) if late else None

    async def run_all(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        """Answers a turn's calls, in their order; those of `parallel` tools that follow each other run side by side.

        Raises `InfraError` as `run` does; the calls beside the failed one are stopped, and those after it not begun.
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
        """Answers one call; whatever the model got wrong is an answer too.

        Raises `InfraError` where the sandbox failed, and never anything else.
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
            if (infra := _infra_error(error)) is not None:  # out of a task group of the handler's own
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
            listing = f"the tools are: {', '.join(self._kit.tools)}"
            raise _RefusedCall(f"unknown tool {call.name!r}{_hint(call.name, self._kit.tools)}; {listing}")
        if call.name in self._kit.names and call.name not in self._allowed:
            raise _RefusedCall(f"{call.name} may not be used now; use: {', '.join(sorted(self._allowed))}")
        known, declaration = found
        try:
            arguments = declaration.arguments.model_validate(call.arguments)
        except ValidationError as error:
            raise _RefusedCall(f"bad arguments for {known.name}: {explain(error)}") from None
        if inspect.iscoroutinefunction(known.handler):
            answer: dict[str, Any] = await known.handler(self._context, **vars(arguments))
            return answer
        blocking = cast(Callable[[], dict[str, Any]], partial(known.handler, self._context, **vars(arguments)))
        return await anyio.to_thread.run_sync(blocking, abandon_on_cancel=True, limiter=_threads())

    def _is_parallel(self, call: ToolCall) -> bool:
        found = self._kit.tools.get(call.name)
        return found is not None and found[0].parallel

    async def _run_together(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        results: dict[int, ToolResult] = {}
        failures: list[InfraError] = []
        slots = anyio.Semaphore(_AT_ONCE)

        async def run(place: int, call: ToolCall) -> None:
            async with slots:
                try:
                    results[place] = await self.run(call)
                except InfraError as error:
                    failures.append(error)
                    group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            for place, call in enumerate(calls):
                group.start_soon(run, place, call)
        if failures:
            raise failures[0]
        return [results[place] for place in range(len(calls))]


@cache
def _threads() -> anyio.CapacityLimiter:
    """For tools that block: apart from the threads that the log and the sandboxes need."""
    return anyio.CapacityLimiter(_THREADS)


@cache
def _kit(
    toolsets: tuple[str, ...],
    disabled: tuple[str, ...],
    profile: Profile = "full",
    refusing: frozenset[str] = frozenset(),
) -> _Kit:
    """The tools that are chosen and work on this machine, but for those that are `refusing`."""
    known, missing = known_tools(), unavailable_tools()
    for name in disabled:
        if name not in known:
            raise ConfigError(
                f"agent.disabled_tools: no tool {name!r}{_hint(name, known)}; there are: {', '.join(known)}"
            )
    chosen: dict[str, Tool] = {}
    for toolset in toolsets:
        members = _members(toolset)
        if all(name in missing for name in members):
            reasons = "; ".join(f"{name}: {missing[name]}" for name in members)
            raise ConfigError(f"agent.toolsets: {toolset} cannot work here: {reasons}")
        chosen |= {name: known[name] for name in members if name not in missing and name not in disabled}
    return _resolved({name: tool for name, tool in chosen.items() if name not in refusing}, profile)


def _refusing(kit: _Kit, context: ToolContext) -> dict[str, Tool]:
    """The tools that can only refuse in this episode. One may serve only beside another, so it is asked again after
    others were left out."""
    offered = {name: tool for name, (tool, _) in kit.tools.items()}
    while refusing := [name for name, tool in offered.items() if tool.serves and not tool.serves(context, offered)]:
        offered = {name: tool for name, tool in offered.items() if name not in refusing}
    return {name: tool for name, (tool, _) in kit.tools.items() if name not in offered}


def _resolved(chosen: Mapping[str, Tool], profile: Profile) -> _Kit:
    tools = {name: (tool, tool.beside(chosen, profile)) for name, tool in chosen.items()}
    return _Kit(tools, tuple(declaration.schema for _, declaration in tools.values()), frozenset(tools))


def _by_name(tools: Sequence[Tool]) -> dict[str, Tool]:
    return {tool.name: tool for tool in tools}


def _members(name: str) -> list[str]:
    """The tools of a toolset, or the one tool of that name."""
    if name in COMPOSITES:
        return [member for part in COMPOSITES[name] for member in _members(part)]
    known = known_tools()
    if members := sorted(tool.name for tool in known.values() if tool.toolset == name):
        return members
    if name in known:
        return [name]
    toolsets = sorted({tool.toolset for tool in known.values()} | set(COMPOSITES))
    hint = _hint(name, (*toolsets, *known))
    raise ConfigError(f"agent.toolsets: no toolset {name!r}{hint}; there are: {', '.join(toolsets)}")


def _why_not(known: Tool) -> str:
    if unset := [name for name in known.requires_env if not os.environ.get(name)]:
        return f"set {' and '.join(unset)} in the environment"
    return known.available() if known.available else ""


def _hint(name: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f" (did you mean {near[0]}?)" if near else ""


def _infra_error(error: BaseException) -> InfraError | None:
    """The failure of the infrastructure that `error` is, or that is among those it groups."""
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(_infra_error, error.exceptions)), None)
    return error if isinstance(error, InfraError) else None


def _to_json(answer: dict[str, Any]) -> str:
    """JSON that can be encoded: a lone surrogate, which a model can write as an escape, becomes `?`."""
    text = _encode(answer)
    return text if text.isascii() else text.encode(errors="replace").decode()
