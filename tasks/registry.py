"""Loads suites by name: domains and families, adapters of third-party suites, entry points, the user's own as
`module:attribute`, and JSONL files by path."""

import importlib
import inspect
import pkgutil
import re
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any, cast

from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.config.schema import SuiteConfig
from hermes_lab.errors import ConfigError, HermesLabError
from hermes_lab.plugins import PluginGroup, explain_missing, import_own, is_missing
from hermes_lab.protocols import Suite
from hermes_lab.raised import message_of
from hermes_lab.returned import shown
from hermes_lab.tasks import open_ended
from hermes_lab.tasks.hooks import check_hooks
from hermes_lab.tasks.jsonl import JsonlSuite
from hermes_lab.tasks.own_names import own_name_hint
from hermes_lab.tasks.stories import Story, StorySuite, read_story
from hermes_lab.tasks.suite import WorldSuite
from hermes_lab.tasks.worlds import AnyFamily, Size, WorldSpec
from hermes_lab.text.suggest import did_you_mean

_HERE = Path(__file__).parent
PLUGINS = PluginGroup("hermes_lab.suites", "suite.name")
ADAPTERS = "adapters"
OPEN_ENDED = "open_ended"
SERVED = "served"
_MEMBERS = ("name", "splits", "load", "verify")
"""What every suite has (`Suite`)."""


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
    """The suites that bring an MCP server for their tools. Does not import them."""
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
        path = Path(config.path)
        if path.is_dir():
            return _harbor(config, sandbox or SandboxConfig())
        # A file of tasks is one, whatever module its name could also mean: `tasks.jsonl` beside `tasks/jsonl.py`.
        if (path.suffix == ".py" or not path.is_file()) and (near := own_name_hint(config.path)):
            raise ConfigError(
                f"{config.path} is neither a JSONL file nor a folder; a class of your own is named module:Class{near}",
                "suite",
            )
        if config.options:
            raise ConfigError("suite.options: JSONL files have no options")
        return JsonlSuite(path)
    if not config.name:
        raise ConfigError(
            "suite: no suite given; set suite.name, or suite.path to a JSONL file or a folder of Harbor tasks"
        )
    with wrap_suite_errors(config.name):
        factory = _factory(config.name)
        _check_arguments(config, factory)
        try:
            return _checked(config.name, factory(**config.options))
        except TypeError as error:
            if "keyword argument" not in str(error) or not config.options:
                raise
            raise ConfigError(_unknown_option(config, factory, str(error)), "suite.options") from None


def _check_arguments(config: SuiteConfig, factory: Callable[..., Suite]) -> None:
    """Raises `ConfigError` if the factory needs an argument that `suite.options` does not give, or takes none."""
    try:
        parameters = inspect.signature(factory).parameters.values()
    except ValueError:  # a class that is not written in Python
        return
    named = [each for each in parameters if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)]
    if missing := [each.name for each in named if each.default is each.empty and each.name not in config.options]:
        raise ConfigError(f"{config.name} needs {', '.join(missing)}; set each, or give it a default", "suite.options")
    if config.options and not parameters:
        raise ConfigError(f"{config.name} takes no options; remove {', '.join(config.options)}", "suite.options")


def _checked(name: str, suite: Any) -> Suite:
    """The suite, if it is one. Raises `ConfigError` if it lacks a member of `Suite`, has other names or splits,
    or a method that does not accept what it is called with."""
    if missing := [member for member in _MEMBERS if not hasattr(suite, member)]:
        raise ConfigError(f"{name}: not a suite, since {type(suite).__name__} lacks {', '.join(missing)}", "suite.name")
    if not isinstance(suite.name, str) or not suite.name:
        raise ConfigError(f"{name}: its `name` is {shown(suite.name)}; give it a text, such as 'parcels'", "suite.name")
    splits: Any = suite.splits
    if not isinstance(splits, tuple | list) or not splits or not all(isinstance(split, str) for split in splits):
        raise ConfigError(f"{name}: its `splits` are {shown(splits)}; write a tuple, such as ('train',)", "suite.name")
    if not type(suite).__module__.startswith("hermes_lab."):
        check_hooks(name, suite)
    return cast(Suite, suite)


def _harbor(config: SuiteConfig, sandbox: SandboxConfig) -> Suite:
    from hermes_lab.tasks.adapters.harbor.suite import HarborSuite

    known = ("skip_unsupported", "python", "running")
    for option in config.options:
        if option not in known:
            near = did_you_mean(option, known)
            raise ConfigError(
                f"suite.options: Harbor folders have no option {option!r}{near}; there are: {', '.join(known)}"
            )
    return HarborSuite(Path(config.path), sandbox, **config.options)


@contextmanager
def wrap_suite_errors(suite: Suite | str, task: str = "") -> Iterator[None]:
    """Converts exceptions from the code of a third-party suite, given as an object or by `suite.name`, to a one-line
    `ConfigError` with file and line, and the id of the `task`, if any. Does not change exceptions from the lab's own
    code."""
    try:
        yield
    except HermesLabError:
        raise
    except Exception as error:
        cause: BaseException = error
        while isinstance(cause, BaseExceptionGroup):
            cause = cause.exceptions[0]
        where = _suite_location(suite, cause)
        if not where or isinstance(cause, HermesLabError):
            raise
        name = (suite if isinstance(suite, str) else suite.name) + (f": {task}" if task else "")
        what = message_of(cause) or "no message"
        raise ConfigError(f"{name}: {where[0]}{type(cause).__name__}: {what} ({where[1]})", "suite.name") from error


def _suite_location(suite: Suite | str, error: BaseException) -> tuple[str, str] | None:
    """Where a suite's own package failed: the function, such as "load(): ", and FILE:LINE. None for other errors."""
    root, value = _origin(suite)
    if root in ("", "hermes_lab"):
        return None
    frames = traceback.walk_tb(error.__traceback__)
    own = [each for each in frames if str(each[0].f_globals.get("__name__", "")).partition(".")[0] == root]
    if isinstance(error, SyntaxError) and error.filename:
        return "", f"{error.filename}:{error.lineno}"
    if own:
        code = own[0][0].f_code
        called = "" if code.co_name.startswith("<") else f"{code.co_name}(): "
        return called, f"{own[-1][0].f_code.co_filename}:{own[-1][1]}"
    # The entry point itself could not be imported.
    return ("", value) if isinstance(error, ImportError | AttributeError) and root in str(error) else None


def _origin(suite: Suite | str) -> tuple[str, str]:
    """The top-level module of a suite's code, and what its configuration names as `module:attribute`."""
    if not isinstance(suite, str) and not type(suite).__module__.startswith("hermes_lab."):
        return type(suite).__module__.partition(".")[0], type(suite).__qualname__
    name = suite if isinstance(suite, str) else suite.name
    plugin = None if is_own(name) else PLUGINS.find(name)
    value = name if is_own(name) else plugin.entry.value if plugin else ""
    return re.split(r"[.:]", value, maxsplit=1)[0], value


def _unknown_option(config: SuiteConfig, factory: Callable[..., Suite], message: str) -> str:
    """Rewords Python's error `message` about an unexpected keyword argument."""
    known = [each.name for each in fields(WorldSpec)] + ["families"] * (config.name in domains())
    if "WorldSpec" not in message:
        parameters = inspect.signature(factory).parameters.values()
        known = [each.name for each in parameters if each.kind is not each.VAR_KEYWORD]
    what = message.rpartition(") ")[2].replace("keyword argument", "option")
    wrong = [option for option in config.options if option not in known]
    meant = did_you_mean(wrong[0] if wrong else "", known)
    return f"{config.name}: {what}{meant}; there are: {', '.join(known) or 'none'}"


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
    if is_own(name):
        return _own(name)
    plugin = PLUGINS.find(name)
    if plugin is None:
        if near := own_name_hint(name):
            raise ConfigError(f"no suite {name!r}{near}", "suite.name")
        known = list_suites()
        raise ConfigError(f"no suite {name!r}{did_you_mean(name, known)}; there are: {', '.join(known)}", "suite.name")
    return cast(Callable[..., Suite], plugin.entry.load())  # `wrap_suite_errors` says where it failed


def is_own(name: str) -> bool:
    """Whether `suite.name` has the form `module:attribute`."""
    return ":" in name


def _own(name: str) -> Callable[..., Suite]:
    """The class `module:attribute`. Functions are refused, and so are classes without the methods of a suite."""
    module, _, attribute = name.partition(":")
    if not all(part.isidentifier() for part in (*module.split("."), attribute)):
        near = own_name_hint(name) or ", such as mine.parcels:Parcels"
        raise ConfigError(f"{name!r} is not of the form module:Class{near}", "suite.name")
    try:
        found = import_own(module)
    except ModuleNotFoundError as error:
        if not is_missing(error, module):
            raise  # the module exists, and imports one that does not
        raise ConfigError(f"{name}: {explain_missing(module)}", "suite.name") from None
    own = getattr(found, attribute, None)
    if not isinstance(own, type):
        known = [each for each, value in vars(found).items() if isinstance(value, type)]
        what = "is not a class" if hasattr(found, attribute) else "does not exist"
        raise ConfigError(f"{name}: {attribute} {what} in {module}{did_you_mean(attribute, known)}", "suite.name")
    # Before it is called: the name may come from somebody else's record, and could be any class of any module.
    if lacks := [member for member in ("load", "verify") if not hasattr(own, member)]:
        raise ConfigError(f"{name}: not a suite: {attribute} lacks {', '.join(lacks)}", "suite.name")
    return own


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
        known = f"{did_you_mean(unknown[0], members)}; there are: {', '.join(members)}"
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
