"""Tools are declared with `@tool`, and discovered in this package and by entry points."""

import importlib
import logging
import os
import pkgutil
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import hermes_lab.tools
from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.errors import ConfigError
from hermes_lab.plugins import Plugin, PluginGroup
from hermes_lab.protocols import Sandbox
from hermes_lab.sandbox.extras import Extras
from hermes_lab.tools.schema import Declaration, Profile, declare, related
from hermes_lab.tools.toolsets import COMPOSITES
from hermes_lab.types import Page

if TYPE_CHECKING:
    from hermes_lab.memory.notes import NotesSession
    from hermes_lab.sessions import SessionKey, SessionStore
    from hermes_lab.sessions.summary import Summarise
    from hermes_lab.skills.session import SkillSession
    from hermes_lab.web import WebProvider

Handler = Callable[..., Awaitable[dict[str, Any]]] | Callable[..., dict[str, Any]]
Ask = Callable[[str, tuple[str, ...]], Awaitable[str]]
"""Asks the user a question, with optional choices, and returns the answer."""
Send = Callable[[str, str], Awaitable[None]]
"""Sends a text to `chat` or `home`. Raises `ToolError` if there is no such chat."""
Delegate = Callable[[str, str, tuple[str, ...]], Awaitable[dict[str, Any]]]
"""Runs a child agent on a goal with a context and toolsets, and returns the result of the `delegate_task` tool."""


class Proposals(Protocol):
    """Scheduled jobs that the agent proposes, and a person approves. All methods block, and raise `ConfigError`."""

    def propose(self, name: str, schedule: str, prompt: str, skills: Sequence[str], repeat: int | None) -> str:
        """Proposes a job; returns its first slot, ISO 8601."""
        ...

    def proposed(self) -> list[dict[str, Any]]:
        """All jobs, with the state of each."""
        ...

    def withdraw(self, name: str) -> None:
        """Removes a proposal that nobody has approved."""
        ...


Serves = Callable[["ToolContext", Collection[str]], bool]
"""Whether a tool is of any use in this episode, given its context and the names of the offered tools."""
T = TypeVar("T")
_PLUGINS = PluginGroup("hermes_lab.tools", "agent.toolsets")
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ToolContext:
    """What tools have access to in an episode: the sandbox with its limits, and optionally skills, notes, stored
    sessions, a user to ask, child agents, and scheduled jobs. `summarise` writes summaries of what tools find.

    `heal_attempts` is `skills.heal_attempts`, the retries of a compiled skill. `pages` are the web pages of a task that
    has its own; for other tasks, `web` is the search provider. `send` sends messages to a chat platform. Of `sessions`,
    only those `held_at` a key may be read; None: all.
    """

    sandbox: Sandbox
    skills: "SkillSession | None"
    config: SandboxConfig
    ask: Ask | None = None
    notes: "NotesSession | None" = None
    sessions: "SessionStore | None" = None
    held_at: "SessionKey | None" = None
    summarise: "Summarise | None" = None
    delegate: Delegate | None = None
    heal_attempts: int = 3
    pages: tuple[Page, ...] = ()
    web: "WebProvider | None" = None
    jobs: Proposals | None = None
    send: Send | None = None
    _state: dict[type, Any] = field(default_factory=dict)

    def state(self, kind: type[T]) -> T:
        """Returns the episode's instance of `kind`, created at first use; tools keep state between calls in it."""
        if kind not in self._state:
            self._state[kind] = kind()
        state: T = self._state[kind]
        return state

    def sharing(self, other: "ToolContext", *kinds: type) -> "ToolContext":
        """This context with the `state` of these kinds that `other` has."""
        return replace(self, _state=self._state | {kind: other.state(kind) for kind in kinds})


@dataclass(frozen=True)
class Tool:
    """A tool, as declared with `@tool`."""

    name: str
    toolset: str
    handler: Handler
    parallel: bool = False
    requires_env: tuple[str, ...] = ()
    available: Callable[[], str] | None = None
    serves: Serves | None = None
    extras: Callable[[], Extras] | None = None

    def beside(self, enabled: Collection[str], profile: Profile = "full") -> Declaration:
        """Returns the declaration for the model if the tools `enabled` are also offered."""
        return declare(self.handler, related(self.handler).intersection(enabled), profile)


@dataclass(frozen=True, kw_only=True)
class GivenTool(Tool):
    """A tool with an explicit declaration instead of a docstring (`tools/given.py`).

    `served`: by an MCP server. Child agents have it too, and a replay answers from the record instead of calling it.
    """

    declaration: Declaration
    served: bool = False

    def beside(self, enabled: Collection[str], profile: Profile = "full") -> Declaration:
        """Returns the fixed declaration, which never depends on other tools."""
        del enabled, profile
        return self.declaration


def tool(
    *,
    toolset: str,
    parallel: bool = False,
    requires_env: Sequence[str] = (),
    available: Callable[[], str] | None = None,
    serves: Serves | None = None,
    extras: Callable[[], Extras] | None = None,
) -> Callable[[Handler], Tool]:
    """Declares `async def name(ctx: ToolContext, ...) -> dict` as a tool. A tool that blocks must be a plain `def`; it
    runs in a thread, so that it does not block other rollouts.

    The schema comes from the signature. The first paragraph of the docstring describes the tool, and its `Args:`
    section the arguments. Other tools may only be mentioned inside `{that_tool: ...}`, which is left out if that tool
    is not enabled; `schema.When` does the same for an argument. `{full: ...}` and `{compact: ...}` are text for one
    profile of the prompt; text for `full` must not have a value that a small model could copy as an argument. The
    returned dict goes to the model as JSON; one with an `error` counts as a failure.

    `parallel`: the tool changes nothing and may run concurrently with others of the same turn. `requires_env`: names of
    required environment variables. `available`: returns the reason why the tool cannot work on this machine, or "".
    `serves`: returns whether the tool is of any use in an episode; if not, i.e. if it could only return an error,
    prompts of the profile `full` do not offer it. `extras`: returns what the tool needs of the sandbox besides a
    workspace, such as folders of this machine.
    """

    def make(handler: Handler) -> Tool:
        declare(handler, frozenset())  # fails at import if the docstring is invalid
        return Tool(handler.__name__, toolset, handler, parallel, tuple(requires_env), available, serves, extras)

    return make


class InstalledTools(NamedTuple):
    """All tools by name, the plugins of those that come from a plugin, and the plugins that cannot be used, by name,
    each with its error."""

    tools: dict[str, Tool]
    plugins: dict[str, Plugin]
    broken: dict[str, tuple[Plugin, ConfigError]]

    def check(self, names: Collection[str], disabled: Collection[str]) -> None:
        """Raises `ConfigError` if a selection of tools and toolsets uses a package with a broken tool, since which
        toolset the broken one belongs to is unknown; if it names the tool, too. Not for a tool that is disabled."""
        used = {self.plugins[name].package for name in names if name in self.plugins}
        for name, (plugin, error) in self.broken.items():
            if name not in disabled and (name in names or (plugin.package and plugin.package in used)):
                raise ConfigError(error.message, error.field)


@cache
def installed_tools() -> InstalledTools:
    """Loads all installed tools: those of this package, then those of the entry points `hermes_lab.tools`. A broken
    plugin is logged, and stops only what uses it (`InstalledTools.check`)."""
    found = InstalledTools({}, {}, {})
    for module in pkgutil.iter_modules(hermes_lab.tools.__path__, "hermes_lab.tools."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, Tool):
                found.tools[value.name] = value
    for plugin in _PLUGINS.all():
        try:
            loaded = _load(plugin, found.tools)
        except ConfigError as error:
            found.broken[plugin.name] = plugin, error
            _log.warning("%s", error)
        else:
            found.tools[loaded.name], found.plugins[loaded.name] = loaded, plugin
    return found


def known_tools() -> dict[str, Tool]:
    """Returns all installed tools by name: those of this package, then those of plugins."""
    return installed_tools().tools


def _load(plugin: Plugin, known: Collection[str]) -> Tool:
    value = plugin.load()
    if not isinstance(value, Tool):
        raise plugin.error("is not a tool", "use a function decorated with @tool")
    if value.name in known:
        raise plugin.error(f"brings a tool {value.name!r}, which exists already", "rename it")
    if value.toolset in COMPOSITES:
        raise plugin.error(f"brings a tool of {value.toolset!r}, which combines others", "choose another toolset")
    return value


@cache
def unavailable_tools() -> dict[str, str]:
    """Returns the reason for each tool that cannot work on this machine. The result is cached."""
    reasons = {known.name: _unavailable_reason(known) for known in known_tools().values()}
    return {name: reason for name, reason in reasons.items() if reason}


def _unavailable_reason(known: Tool) -> str:
    if unset := [name for name in known.requires_env if not os.environ.get(name)]:
        return f"set {' and '.join(unset)} in the environment"
    return known.available() if known.available else ""
