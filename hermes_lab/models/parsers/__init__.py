"""Parsers for tool calls in a model's raw text, one file per model family.

They serve endpoints that leave calls in the text. A built-in parser is the function `parse` in the module of its name;
third parties register theirs in the entry point group `hermes_lab.tool_parsers`.
"""

import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

from hermes_lab.errors import ConfigError
from hermes_lab.models.parsers._blocks import Reply
from hermes_lab.plugins import PluginGroup

__all__ = ["Parser", "Reply", "get", "names"]

_PLUGINS = PluginGroup("hermes_lab.tool_parsers", "model.tool_parser")


class Parser(Protocol):
    """Parses a reply's text.

    `schemas` are the OpenAI function schemas given to the model; formats with untyped arguments take the types from
    them. Parsers never raise. A block that is not a valid call becomes a `ToolCall` with `error` and `raw`, without
    guessing, and other blocks are unaffected. Ids are unique only within the reply.
    """

    def __call__(self, text: str, schemas: Sequence[Mapping[str, Any]] = (), /) -> Reply: ...


def names() -> list[str]:
    """The valid values of `model.tool_parser`. Imports nothing."""
    return sorted({*_built_in(), *_PLUGINS.names()})


def get(name: str) -> Parser:
    """The parser of a model family. Raises `ConfigError` for an unknown name, or a plugin that cannot be loaded."""
    if name in _built_in():
        return cast(Parser, importlib.import_module(f"{__name__}.{name}").parse)
    plugin = _PLUGINS.find(name)
    if plugin is None:
        raise ConfigError(f"model.tool_parser: no parser {name!r}; available: {', '.join(names())}")
    return cast(Parser, plugin.load())


def _built_in() -> set[str]:
    return {module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_")}
