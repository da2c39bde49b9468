"""Parsers that read tool calls out of the raw text of a model, one file a family.

They are for servers that leave the calls in the text. A built-in parser is the function `parse` of the module with its
name; third parties bring theirs by the entry point group `hermes_lab.tool_parsers`.
"""

import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from typing import Any, Protocol, cast

from hermes_lab.errors import ConfigError
from hermes_lab.models.parsers._blocks import Reply

__all__ = ["Parser", "Reply", "get", "names"]

_ENTRY_POINTS = "hermes_lab.tool_parsers"


class Parser(Protocol):
    """Takes a reply's text apart.

    `schemas` are the OpenAI function schemas that the model was given; formats that write arguments as bare text read
    the types from them. It never raises, whatever the text. A block that is not a valid call becomes a `ToolCall` with
    `error` and `raw`; it is never guessed at, and the blocks around it stand. Ids are unique within the reply only.
    """

    def __call__(self, text: str, schemas: Sequence[Mapping[str, Any]] = (), /) -> Reply: ...


def names() -> list[str]:
    """The names that `model.tool_parser` takes. Nothing is imported."""
    return sorted(_built_in() | {point.name for point in entry_points(group=_ENTRY_POINTS)})


def get(name: str) -> Parser:
    """The parser of a family. Raises `ConfigError` for an unknown name."""
    if name in _built_in():
        return cast(Parser, importlib.import_module(f"{__name__}.{name}").parse)
    points = entry_points(group=_ENTRY_POINTS, name=name)
    if not points:
        raise ConfigError(f"model.tool_parser: no parser {name!r}; there are: {', '.join(names())}")
    return cast(Parser, points[name].load())


def _built_in() -> set[str]:
    return {module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_")}
