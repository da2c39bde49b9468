"""Loads suites by name: domains and families, adapters of third-party suites, entry points, and JSONL files by path."""

import difflib
import importlib
import inspect
import pkgutil
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any, cast

from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.config.schema import SuiteConfig
from hermes_lab.errors import ConfigError, HermesLabError
from hermes_lab.plugins import PluginGroup
from hermes_lab.protocols import Suite
from hermes_lab.tasks import open_ended
from hermes_lab.tasks.jsonl import JsonlSuite
from hermes_lab.tasks.stories import Story, StorySuite, read_story
from hermes_lab.tasks.suite import WorldSuite
from hermes_lab.tasks.worlds import AnyFamily, Size, WorldSpec

_HERE = Path(__file__).parent
PLUGINS = PluginGroup("hermes_lab.suites", "suite.name")
ADAPTERS = "adapters"
OPEN_ENDED = "open_ended"
SERVED = "served"


@cache
def domains() -> dict[str, tuple[str, ...]]:
    """The families of each domain, by name. Does not import them."""
    folders = [each.name for each in pkgutil.iter_modules([str(_HERE)]) if each.ispkg]
    found = {name: _modules(name) for name in folders if name not in (ADAPTERS, OPEN_ENDED, SERVED)}
    return {domain: families for domain, families in found.items() if families}


def stories() -> tuple[str, ...]:
    """The open-ended stories, by name. Does not import them."""
    return tuple(sorted(path.stem for path in Path(open_ended.__file__).parent.glob("*.yaml")))


def adapters() -> tuple[str, ...]:
    """The third-party suites that have an adapter. Does not import them. What reads folders (Harbor) has no name."""
    return tuple(name for name in _modules(ADAPTERS) if not (_HERE / ADAPTERS / name).is_dir())


def served() -> tuple[str, ...]:
    """The suites whose tools come from an MCP server of their own. Does not import them."""
    return _modules(SERVED)


def _modules(package: str) -> tuple[str, ...]:
    folder = _HERE / package
    return tuple(module.name for module in pkgutil.iter_modules([str(folder)]) if module.name[0] != "_")


def load_family(name: str, size: Size = "full") -> AnyFamily:
    """Loads a family by name, of a domain or of `served`; with size `small` its small tasks.

    Raises `KeyError` if there is no such family, and `ConfigError` if it has no small tasks.
    """
    groups = {**domains(), SERVED: served()}
    (group,) = [group for group, families in groups.items() if name in families] or [""]
    if not group:
        raise KeyError(name)
    if size == "small" and name not in small_families():
        raise ConfigError(f"suite.options.size: {name} has no small tasks; these have: {', '.join(small_families())}")
    module = f"hermes_lab.tasks.{group}.{name}{'.small' if size == 'small' else ''}"
    return cast(AnyFamily, importlib.import_module(module).FAMILY)


@cache
def small_families() -> tuple[str, ...]:
    """The families with small tasks, which are those with a module `small`. Does not import them."""
    folders = {family: _HERE / domain / family for domain, members in domains().items() for family in members}
    return tuple(family for family, folder in folders.items() if (folder / "small.py").is_file())


def load_story(name: str) -> Story:
    """Loads a story by name. Raises `KeyError` if there is none."""
    if name not in stories():
        raise KeyError(name)
    return read_story(open_ended.__file__, name)


def list_suites() -> list[str]:
    """The valid values of `suite.name`. Does not import the suites."""
    families = [family for members in domains().values() for family in members]
    ours = (*domains(), *families, OPEN_ENDED, *stories(), *served(), *adapters())
    return sorted({*ours, *PLUGINS.names()})


def load_suite(config: SuiteConfig, sandbox: SandboxConfig | None = None) -> Suite:
    """The suite that `config` names, for sandboxes of the configuration `sandbox` (None: the default).

    Raises `ConfigError` for an unknown name or a broken file.
    """
    if config.path:
        if Path(config.path).is_dir():
            return _harbor(config, sandbox or SandboxConfig())
        if config.options:
            raise ConfigError("suite.options: JSONL files have no options")
        return JsonlSuite(Path(config.path))
    if not config.name:
        raise ConfigError(
            "suite: no suite given; set suite.name, or suite.path to a JSONL file or a folder of Harbor tasks"
        )
    with wrap_suite_errors(config.name):
        factory = _factory(config.name)
        try:
            return factory(**config.options)
        except TypeError as error:
            if "keyword argument" not in str(error) or not config.options:
                raise
            raise ConfigError(f"suite.options: {_unknown_option(config, factory, str(error))}") from None


def _harbor(config: SuiteConfig, sandbox: SandboxConfig) -> Suite:
    from hermes_lab.tasks.adapters.harbor.suite import HarborSuite

    known = ("skip_unsupported", "python", "running")
    for option in config.options:
        if option not in known:
            near = nearest(option, known)
            raise ConfigError(
                f"suite.options: Harbor folders have no option {option!r}{near}; there are: {', '.join(known)}"
            )
    return HarborSuite(Path(config.path), sandbox, **config.options)


@contextmanager
def wrap_suite_errors(name: str) -> Iterator[None]:
    """Converts exceptions from the code of an installed suite to a one-line `ConfigError` with file and line. Does not
    change exceptions from our own code."""
    try:
        yield
    except HermesLabError:
        raise
    except Exception as error:
        cause: BaseException = error
        while isinstance(cause, BaseExceptionGroup):
            cause = cause.exceptions[0]
        where = _suite_location(name, cause)
        if not where or isinstance(cause, HermesLabError):
            raise
        what = " ".join(str(cause).split()) or "no message"
        raise ConfigError(f"suite.name: {name}: {where[0]}{type(cause).__name__}: {what} ({where[1]})") from error


def _suite_location(name: str, error: BaseException) -> tuple[str, str] | None:
    """Where a suite's own package failed: the function, such as "load(): ", and FILE:LINE. None for other errors."""
    plugin = PLUGINS.find(name)
    if plugin is None:
        return None
    point = plugin.entry
    root = point.module.partition(".")[0]
    frames = traceback.walk_tb(error.__traceback__)
    own = [each for each in frames if str(each[0].f_globals.get("__name__", "")).partition(".")[0] == root]
    if isinstance(error, SyntaxError) and error.filename:
        return "", f"{Path(error.filename).name}:{error.lineno}"
    if own:
        code = own[0][0].f_code
        called = "" if code.co_name.startswith("<") else f"{code.co_name}(): "
        return called, f"{Path(own[-1][0].f_code.co_filename).name}:{own[-1][1]}"
    # The entry point itself could not be imported.
    return ("", point.value) if isinstance(error, ImportError | AttributeError) and root in str(error) else None


def _unknown_option(config: SuiteConfig, factory: Callable[..., Suite], message: str) -> str:
    """Rewords Python's error `message` about an unexpected keyword argument."""
    known = [each.name for each in fields(WorldSpec)] + ["families"] * (config.name in domains())
    if "WorldSpec" not in message:
        parameters = inspect.signature(factory).parameters.values()
        known = [each.name for each in parameters if each.kind is not each.VAR_KEYWORD]
    what = message.rpartition(") ")[2].replace("keyword argument", "option")
    wrong = [option for option in config.options if option not in known]
    return f"{config.name}: {what}{nearest(wrong[0] if wrong else '', known)}; there are: {', '.join(known) or 'none'}"


def nearest(name: str, known: Iterable[str]) -> str:
    """A suggestion to append to an error about an unknown name, or ""."""
    near = difflib.get_close_matches(name, list(known), 1)
    return f", did you mean {near[0]!r}?" if near else ""


def _factory(name: str) -> Callable[..., Suite]:
    if name in domains():
        return lambda **world: _domain(name, world)
    if any(name in members for members in domains().values()):
        return lambda **world: _family(name, world)
    if name in (OPEN_ENDED, *stories()):
        return lambda **world: _open_ended(name, world)
    if name in served():
        return cast(Callable[..., Suite], importlib.import_module(f"hermes_lab.tasks.{SERVED}.{name}").load)
    if name in adapters():
        return cast(Callable[..., Suite], importlib.import_module(f"hermes_lab.tasks.{ADAPTERS}.{name}").load)
    plugin = PLUGINS.find(name)
    if plugin is None:
        known = list_suites()
        raise ConfigError(f"suite.name: no suite {name!r}{nearest(name, known)}; there are: {', '.join(known)}")
    return cast(Callable[..., Suite], plugin.entry.load())  # `wrap_suite_errors` says where it failed


def _family(name: str, world: dict[str, Any]) -> WorldSuite:
    """One family; its small tasks by default with fewer sites."""
    small = {"ruled": 2, "plain": 1, "unseen": 1} if world.get("size") == "small" else {}
    spec = WorldSpec(**{**small, **world})
    return WorldSuite(name, (load_family(name, spec.size),), spec)


def _domain(name: str, world: dict[str, Any]) -> WorldSuite:
    """The families of a domain, or those that the option `families` names: two ruled sites and a plain one for each,
    unless `world` says otherwise."""
    members = domains()[name]
    chosen = world.pop("families", members)
    if unknown := [family for family in chosen if family not in members]:
        known = f"{nearest(unknown[0], members)}; there are: {', '.join(members)}"
        raise ConfigError(f"suite.options.families: {name} has no family {unknown[0]!r}{known}")
    spec = WorldSpec(**{"ruled": 2 * len(chosen), "plain": len(chosen), **world})
    families = tuple(load_family(family, spec.size) for family in chosen)
    return WorldSuite(name, families, spec)


def _open_ended(name: str, world: dict[str, Any]) -> StorySuite:
    """One story, or all; by default a ruled site and a plain one for each family."""
    chosen = tuple(load_story(story) for story in (stories() if name == OPEN_ENDED else (name,)))
    names = tuple(dict.fromkeys(family for story in chosen for family in story.families))
    spec = WorldSpec(**{"ruled": len(names), "plain": len(names), **world})
    families = tuple(load_family(family, spec.size) for family in names)
    return StorySuite(name, chosen, families, spec)
