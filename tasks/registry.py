"""Finds suites: the sub-packages of `tasks`, third parties by entry point, and JSONL files by path."""

import importlib
import pkgutil
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import cast

import tasks
from hermes_lab.config import SuiteConfig
from hermes_lab.errors import ConfigError
from hermes_lab.protocols import Suite
from tasks.jsonl import JsonlSuite

ENTRY_POINTS = "hermes_lab.suites"


def list_suites() -> list[str]:
    """The names that `suite.name` takes. Nothing is imported."""
    return sorted(_built_in() | {point.name for point in entry_points(group=ENTRY_POINTS)})


def load_suite(config: SuiteConfig) -> Suite:
    """The suite that `config` names. Raises `ConfigError` for an unknown name or a broken file."""
    if config.path:
        if config.options:
            raise ConfigError("suite.options: a JSONL file takes none")
        return JsonlSuite(Path(config.path))
    if not config.name:
        raise ConfigError("suite: no suite is given; set suite.name, or suite.path to a JSONL file")
    try:
        return _factory(config.name)(**config.options)
    except TypeError as error:
        if not config.options:
            raise
        what = str(error).rpartition(") ")[2].replace("keyword argument", "option")
        raise ConfigError(f"suite.options: {config.name}: {what}") from None


def _built_in() -> set[str]:
    return {module.name for module in pkgutil.iter_modules(tasks.__path__) if module.ispkg}


def _factory(name: str) -> Callable[..., Suite]:
    if name in _built_in():
        return cast(Callable[..., Suite], importlib.import_module(f"tasks.{name}.suite").load)
    points = entry_points(group=ENTRY_POINTS, name=name)
    if not points:
        raise ConfigError(f"suite.name: no suite {name!r}; there are: {', '.join(list_suites())}")
    return cast(Callable[..., Suite], points[name].load())
